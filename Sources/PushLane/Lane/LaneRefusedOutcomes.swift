import PushCore

/// The apps whose outcomes are refused, and what waits for them: a queue that gets one app's outcomes alone may be full. The others' are
/// published meanwhile. Empty while nothing refuses, so that it costs a publish nothing.
struct RefusedOutcomes {
  /// Beyond so many apps, a refusal stops all others too (`Lane.destinations`).
  static let appsMaximum = 16

  struct App {
    /// Its number among the labels of metrics (`LaneCounters.appIndex`): unknown ones share one.
    let number: UInt16
    var state = DestinationState()
    var waiting = SendList()
    /// How many wait, by class.
    var held: InlineArray<2, Int> = InlineArray(repeating: 0)
  }

  var apps: [App] = []
  var turns = RefusalTurns<UInt16>()

  var isEmpty: Bool { apps.isEmpty }
  var isWaiting: Bool { apps.contains { $0.waiting.first != nil } }

  func place(of number: UInt16) -> Int? { apps.firstIndex { $0.number == number } }

  func held(_ jobClass: JobClass) -> Int { apps.reduce(0) { $0 + $1.held[Int(jobClass.rawValue)] } }

  /// Their numbers; which was tried longest ago comes first.
  var inTurn: [UInt16] { apps.sorted { $0.state.publishedAt < $1.state.publishedAt }.map(\.number) }

  mutating func append(_ ticket: Ticket, at place: Int, to sends: inout SlotTable<SendSlot>) {
    apps[place].held[Int(sends[ticket].jobClass.rawValue)] += 1
    apps[place].waiting.append(ticket, to: &sends)
  }

  mutating func popFirst(at place: Int, of sends: borrowing SlotTable<SendSlot>) {
    guard let ticket = apps[place].waiting.first else { preconditionFailure("nothing waits") }
    apps[place].held[Int(sends[ticket].jobClass.rawValue)] -= 1
    apps[place].waiting.popFirst(of: sends)
  }

  /// The connection to publish on is gone.
  mutating func lost() {
    for place in apps.indices { apps[place].state.lost() }
  }

  /// The deliveries are gone.
  mutating func abandon() {
    for place in apps.indices {
      apps[place].waiting = SendList()
      apps[place].held = InlineArray(repeating: 0)
    }
  }
}

extension Lane {
  /// The number under which the outcomes of a job's app are refused.
  mutating func appNumber(_ job: Ticket) -> UInt16 { UInt16(truncatingIfNeeded: jobs[job].app) }

  /// An outcome waits with those of its app, if they are refused. false: they are not.
  mutating func waitsWithItsApp(_ ticket: Ticket) -> Bool {
    guard !refusedOutcomes.isEmpty, let place = refusedOutcomes.place(of: appNumber(job(of: ticket))) else {
      return false
    }
    refusedOutcomes.append(ticket, at: place, to: &sends)
    return true
  }

  /// Counts a publish of the app's, if its outcomes are refused. false: they are not.
  mutating func isPublishedWithItsApp(_ number: UInt16) -> Bool {
    guard !refusedOutcomes.isEmpty, let place = refusedOutcomes.place(of: number) else { return false }
    refusedOutcomes.apps[place].state.published(now: clock.now.monotonic)
    return true
  }

  mutating func publishRefusedOutcomes(_ now: Now) {
    for number in refusedOutcomes.inTurn {
      guard let place = refusedOutcomes.place(of: number) else { continue }
      publishRefusedOutcomes(at: place, now)
      let milliseconds = refusedOutcomes.apps[place].state.recovered(now: now.monotonic)
      if let milliseconds { noteRefusal(of: number, refusedForMilliseconds: milliseconds) }
      if refusedOutcomes.apps[place].state.refusingSince == nil { forgetRefusal(at: place) }
    }
  }

  private mutating func publishRefusedOutcomes(at place: Int, _ now: Now) {
    let number = refusedOutcomes.apps[place].number
    while let ticket = refusedOutcomes.apps[place].waiting.first, broker.canPublish, confirms.hasRoom,
      refusedOutcomes.turns.has(number, refusedOutcomes.apps[place].state, now: now.monotonic)
    {
      let way = refusedOutcomes.apps[place].state.way(now: now.monotonic)
      if way == .later { return }
      refusedOutcomes.turns.took(number, refusedOutcomes.apps[place].state, now: now.monotonic)
      guard way == .now else { return renew(way, now) }
      refusedOutcomes.popFirst(at: place, of: sends)
      publish(ticket, now)
    }
  }

  /// What is published moves to a fresh channel, or connection. One is fresh for all that refuse: the one before the present one is closed, and
  /// what is on its way there must have its answer by then.
  mutating func renew(_ way: DestinationState.Way, _ now: Now) {
    guard now.monotonic >= nextRenewal else { return }
    nextRenewal = now.monotonic.adding(milliseconds: settings.renewalMilliseconds)
    if way == .onFreshConnection { broker.renewConnection() } else { broker.renewChannel() }
  }

  /// An outcome was refused: its app's are, from now on. false: those of too many apps are, and all wait.
  mutating func blameApp(_ entry: ConfirmWindow.Entry, _ now: Now) -> Bool {
    guard let place = refusedOutcomes.place(of: entry.app) ?? separate(entry.app) else { return false }
    if !entry.isOfRefusedApp { destinations[PublishDestination.results.rawValue].answeredElsewhere() }
    if refusedOutcomes.apps[place].state.refused(now: now.monotonic) {
      noteRefusal(of: entry.app, refusedForMilliseconds: nil)
    }
    return true
  }

  /// An outcome was taken that was published while its app's were refused: what the others' queues refused may be over, too.
  mutating func absolveApp(_ entry: ConfirmWindow.Entry, _ now: Now) {
    guard let place = refusedOutcomes.place(of: entry.app),
      refusedOutcomes.apps[place].state.confirmed(now: now.monotonic)
    else { return }
    for other in refusedOutcomes.apps.indices { refusedOutcomes.apps[other].state.tryAgain(now: now.monotonic) }
  }

  /// Gives an app a state of its own, and moves what waits of it there. nil: too many have one.
  private mutating func separate(_ number: UInt16) -> Int? {
    if refusedOutcomes.apps.count == RefusedOutcomes.appsMaximum {
      guard let idle = refusedOutcomes.apps.firstIndex(where: { $0.waiting.first == nil }) else { return nil }
      noteRefusal(of: refusedOutcomes.apps[idle].number, refusedForMilliseconds: 0)
      forgetRefusal(at: idle)
    }
    let place = refusedOutcomes.apps.count
    refusedOutcomes.apps.append(RefusedOutcomes.App(number: number))
    let results = PublishDestination.results.rawValue
    for _ in 0..<reports[results].count {
      guard let ticket = reports[results].first else { break }
      reports[results].popFirst(of: sends)
      if appNumber(job(of: ticket)) == number {
        refusedOutcomes.append(ticket, at: place, to: &sends)
      } else {
        reports[results].append(ticket, to: &sends)
      }
    }
    return place
  }

  private mutating func forgetRefusal(at place: Int) {
    reports[PublishDestination.results.rawValue].prepend(&refusedOutcomes.apps[place].waiting, of: &sends)
    refusedOutcomes.apps.remove(at: place)
  }

  private mutating func noteRefusal(of number: UInt16, refusedForMilliseconds milliseconds: Int64?) {
    broker.note(.results, app: counters.appName(Int(number)), refusedForMilliseconds: milliseconds)
  }

  // MARK: jobs of these apps

  /// How long the outcomes of a job's app have been refused, if as many deliveries wait for that as may; nil: it may be sent.
  mutating func refusedMilliseconds(_ job: Ticket, _ now: Now) -> Int64? {
    guard !refusedOutcomes.isEmpty, !jobs[job].tag.isIsolated,
      let place = refusedOutcomes.place(of: appNumber(job)),
      let since = refusedOutcomes.apps[place].state.refusingSince,
      refusedOutcomes.apps[place].state.refusesForLong(now: now.monotonic),
      refusedOutcomes.apps[place].held[Int(jobs[job].tag.jobClass.rawValue)]
        >= max(1, settings.refusedMaximum / refusedOutcomes.apps.count)
    else { return nil }
    return now.monotonic.milliseconds(since: since)
  }

  /// A job whose outcome would be refused, too, waits as a whole in a retry queue, before anything is asked about it. So does one whose end is
  /// known, since it is invalid or its time is over: it would hold its delivery for as long. false: it is started.
  mutating func putOffIfRefused(_ job: Ticket, _ now: Now) -> Bool {
    guard let milliseconds = refusedMilliseconds(job, now), mayBePutOff(job, evenRefused: true),
      let seconds = postponement(job, stuckMilliseconds: milliseconds, now)
    else { return false }
    putOff(job, seconds: seconds, now)
    return true
  }
}
