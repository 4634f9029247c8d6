package import PushCore

/// How devices react to pushes and to time.
extension SimulatedDevices {
  /// Where a push goes: to the device of a token, in lower case, or to all that follow a channel.
  enum Target: Hashable {
    case token(String)
    case channel(ChannelKey)
  }

  /// An accepted push of a Live Activity to a token, in lower case.
  package mutating func receive(
    _ payload: [UInt8], token: String, app: String, fault: ActivityFault = ActivityFault(), now: Now
  ) {
    receive(payload, .token(token), app: app, fault, now: now)
  }

  /// An accepted broadcast on a channel of an app.
  package mutating func receive(
    _ payload: [UInt8], channel: String, app: String, fault: ActivityFault = ActivityFault(), now: Now
  ) {
    receive(payload, .channel(ChannelKey(app: app, channel: channel)), app: app, fault, now: now)
  }

  private mutating func receive(
    _ payload: [UInt8], _ target: Target, app: String, _ fault: ActivityFault, now: Now
  ) {
    guard settings.activitiesMaximum > 0, let push = ActivityPush(payload, idPath: settings.idPath) else { return }
    advance(to: now)
    if fault.isLost {
      counts.lost += 1
      return
    }
    if fault.isReordered, held[target] == nil, held.count < SimulatedDevices.heldMaximum {
      let number = newHeldNumber()
      held[target] = HeldPush(number: number, push: push, app: app, fault: fault)
      wish(.release(target, number), after: SimulatedDevices.overtakeMilliseconds, now: now)
      return
    }
    deliver(push, to: target, app: app, fault, now: now)
    guard let earlier = held.removeValue(forKey: target) else { return }
    counts.reordered += 1
    deliver(earlier.push, to: target, app: earlier.app, earlier.fault, now: now)
  }

  private mutating func deliver(_ push: ActivityPush, to target: Target, app: String, _ fault: ActivityFault, now: Now)
  {
    switch target {
    case .token(let token):
      if push.event == .start {
        start(push, token: token, app: app, fault, now: now)
      } else if let number = byUpdateToken[token] {
        change(number, by: push, now: now)
      } else {
        counts.unknown += 1
      }
    case .channel(let channel):
      let followers = byChannel[channel] ?? []
      if followers.isEmpty { counts.unknown += 1 }
      for number in followers.sorted() { change(number, by: push, now: now) }
    }
  }

  // MARK: - Start, update, end

  private mutating func start(_ push: ActivityPush, token: String, app: String, _ fault: ActivityFault, now: Now) {
    let device = name(of: token)
    if let id = push.activity, let older = byID[ActivityKey(app: app, device: device, activity: id)] {
      // Apps end the older one of two activities with one id.
      end(older, .replaced, at: now.unixMilliseconds, dismissal: now.unixMilliseconds, now: now)
      counts.replaced += 1
    }
    let number = add(push, app: app, device: device, startToken: token, now: now)
    counts.started += 1
    let delay: Int64? =
      switch fault.registration {
      case .never: nil
      case .after(let milliseconds): milliseconds
      case nil: settings.registerMilliseconds
      }
    activities[number]?.isSilent = delay == nil
    activities[number]?.renewMilliseconds = fault.renewMilliseconds
    // An activity on a channel gets no update token.
    if let delay, push.activity != nil, push.channel == nil { wish(.register(number), after: delay, now: now) }
    if let delay = fault.swipeMilliseconds { wish(.swipe(number), after: delay, now: now) }
    dates.add(.expire(number), due: now.unixMilliseconds + SimulatedDevices.activeMilliseconds)
    watchStaleDate(number, now: now)
  }

  private mutating func change(_ number: Int, by push: ActivityPush, now: Now) {
    guard push.event != .start, let activity = activities[number] else { return }
    if activity.isOver {
      activities[number]?.late += 1
      counts.late += 1
    } else if push.timestamp <= activity.timestamp {
      activities[number]?.ignored += 1
      counts.ignored += 1
    } else {
      activities[number]?.show(push)
      counts.displayed += 1
      if push.event == .end {
        let dismissal = push.dismissalDate.map(SimulatedDevices.milliseconds)
        end(number, .end, at: now.unixMilliseconds, dismissal: dismissal, now: now)
      } else {
        watchStaleDate(number, now: now)
      }
    }
  }

  /// Ends an activity if it has not ended, and removes it from the screen at `dismissal`: not before `time`, and at most
  /// four hours later. All in Unix milliseconds.
  mutating func end(_ number: Int, _ cause: SimulatedActivity.Cause, at time: Int64, dismissal: Int64?, now: Now) {
    guard var activity = activities[number], activity.state != .dismissed else { return }
    if !activity.isOver {
      activity.cause = cause
      activity.state = .ended
      activity.endedAt = time
      counts.ended += 1
    }
    let latest = activity.dismissalAt ?? time + SimulatedDevices.lingerMilliseconds
    let dismissal = max(min(dismissal ?? latest, latest), time)
    activity.dismissalAt = dismissal
    activities[number] = activity
    if dismissal <= now.unixMilliseconds {
      dismiss(number, now: now)
    } else {
      dates.add(.dismiss(number), due: dismissal)
    }
  }

  private mutating func dismiss(_ number: Int, now: Now) {
    guard var activity = activities[number], activity.state != .dismissed else { return }
    activity.state = .dismissed
    activities[number] = activity
    leave(activity)
    // Registering the end of the older one would end the newer one: they have the same id.
    if activity.cause != .replaced, !activity.isSilent { register(activity, token: "", now: now) }
  }

  // MARK: - Time

  /// Does everything that is due by now.
  package mutating func advance(to now: Now) {
    while let wish = wishes.take(dueBy: now.monotonic.nanoseconds) { fulfil(wish, now: now) }
    while let date = dates.take(dueBy: now.unixMilliseconds) { keep(date, now: now) }
  }

  private mutating func fulfil(_ wish: Wish, now: Now) {
    switch wish {
    case .register(let number):
      guard let activity = activities[number], !activity.isOver else { return }
      giveToken(number, now: now)
      if let delay = activity.renewMilliseconds { self.wish(.renew(number), after: delay, now: now) }
    case .renew(let number):
      guard let activity = activities[number], !activity.isOver, let token = activity.updateToken else { return }
      activities[number]?.formerTokens.append(token)
      giveToken(number, now: now)
    case .swipe(let number):
      end(number, .swiped, at: now.unixMilliseconds, dismissal: now.unixMilliseconds, now: now)
    case .release(let target, let number):
      guard let push = held[target], push.number == number else { return }
      held[target] = nil
      deliver(push.push, to: target, app: push.app, push.fault, now: now)
    }
  }

  private mutating func keep(_ date: Date, now: Now) {
    switch date {
    case .stale(let number, let seconds):
      guard activities[number]?.staleWake == seconds else { return }
      activities[number]?.staleWake = nil
      watchStaleDate(number, now: now)
    case .expire(let number):
      guard let activity = activities[number], !activity.isOver else { return }
      let time = activity.startedAt + SimulatedDevices.activeMilliseconds
      end(number, .expired, at: time, dismissal: nil, now: now)
    case .dismiss(let number):
      guard let time = activities[number]?.dismissalAt, time <= now.unixMilliseconds else { return }
      dismiss(number, now: now)
    }
  }

  private mutating func giveToken(_ number: Int, now: Now) {
    let token = newToken(of: number, now: now)
    activities[number]?.updateToken = token
    activities[number]?.registeredAt = now.unixMilliseconds
    if let activity = activities[number] { register(activity, token: token, now: now) }
  }

  /// Marks an activity as stale now, or schedules that.
  private mutating func watchStaleDate(_ number: Int, now: Now) {
    guard let activity = activities[number], activity.state == .active, let seconds = activity.staleDate else { return }
    if SimulatedDevices.milliseconds(seconds) <= now.unixMilliseconds {
      activities[number]?.state = .stale
      activities[number]?.stale += 1
      counts.stale += 1
    } else if activity.staleWake.map({ seconds < $0 }) ?? true {
      activities[number]?.staleWake = seconds
      dates.add(.stale(number, seconds), due: SimulatedDevices.milliseconds(seconds))
    }
  }

  /// Longer delays are shortened to this.
  private static let wishMillisecondsMaximum: Int64 = 1_000_000_000

  private mutating func wish(_ wish: Wish, after delay: Int64, now: Now) {
    let delay = min(delay, SimulatedDevices.wishMillisecondsMaximum)
    wishes.add(wish, due: now.monotonic.adding(milliseconds: delay).nanoseconds)
  }

  /// Milliseconds from Unix seconds, for any value in a payload.
  private static func milliseconds(_ seconds: Int64) -> Int64 { max(0, min(seconds, 1_000_000_000_000)) * 1000 }
}
