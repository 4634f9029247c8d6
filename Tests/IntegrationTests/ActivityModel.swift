import PushCore
import PushStores

/// A model of activities without failures or concurrency: the registry must behave like it.
struct ActivityModel: Equatable {
  /// A call with its arguments.
  enum Call {
    case start(ActivityID, payload: ActivityPayload, job: UInt64)
    case revise(ActivityID, payload: ActivityPayload, order: JobOrder, job: UInt64, mayWait: Bool)
    case leave(ActivityID, ordinals: [UInt32], order: JobOrder, job: UInt64, mayWait: Bool)
    case register(ActivityID, ordinal: UInt32, token: [UInt8], at: Int64)
    case resolve(ActivityID, ActivityState.Push, ordinals: [UInt32])
    case resolveStart(ActivityID, job: UInt64, ordinals: [UInt32])
    case startsEnded(ActivityID, job: UInt64, ordinals: [UInt32], haveReached: [Bool])
    case unregistered(ActivityID, ordinal: UInt32, token: [UInt8], at: Int64)
    case forget(ordinal: UInt32)
  }

  private struct Entry: Equatable {
    var activity: ActivityState?
    var jobs = ActivityJobs()
    var holders: [[UInt8]: UInt32] = [:]
    var members: [UInt32: ActivityMember] = [:]
    var contentState: [UInt8] = []
    var body: [UInt8] = []
    var leaves = ActivityLeaves()
  }

  private var entries: [ActivityID: Entry] = [:]

  /// Stands for the body of a job that goes out: its revision, and the state to fill in.
  static func body(_ revision: ActivityRevision, _ contentState: [UInt8]) -> [UInt8] {
    Array("\(revision.number) \(revision.timestamp) ".utf8) + contentState
  }

  /// Stands for the body that is kept for late tokens.
  static func late(_ body: [UInt8]) -> [UInt8] { body + Array(" late".utf8) }

  func snapshot(_ id: ActivityID) -> ActivityRegistry.Snapshot? {
    guard let entry = entries[id], let activity = entry.activity else { return nil }
    return ActivityRegistry.Snapshot(id: id, activity: activity, members: entry.members)
  }

  /// The answer as text.
  mutating func perform(_ call: Call, now: Int64) -> String {
    switch call {
    case .forget(let ordinal):
      for id in entries.keys { entries[id]?.members[ordinal] = nil }
      return "()"
    case .start(let id, _, _), .revise(let id, _, _, _, _), .leave(let id, _, _, _, _),
      .register(let id, _, _, _),
      .resolve(let id, _, _), .resolveStart(let id, _, _), .startsEnded(let id, _, _, _),
      .unregistered(let id, _, _, _):
      var entry = entries[id] ?? Entry()
      do throws(ActivityRefusal) {
        let answer = try ActivityModel.perform(call, &entry, now)
        entries[id] = entry
        return answer
      } catch {
        if entry.activity == nil { entries[id] = entry }
        return "\(ActivityRegistryFailure.refused(id, error))"
      }
    }
  }

  private static func perform(_ call: Call, _ entry: inout Entry, _ now: Int64) throws(ActivityRefusal) -> String {
    switch call {
    case .start(_, let payload, let job):
      let isNew = entry.activity?.startRevision == nil
      let revision = try ActivityState.start(
        &entry.activity, type: payload.attributesType, digest: payload.digest, job: job, jobs: &entry.jobs, now: now)
      if isNew && entry.contentState.isEmpty { entry.contentState = payload.contentState ?? [] }
      return "\(revision)"
    case .revise(_, let payload, let order, let job, let mayWait):
      let before = entry.activity?.content
      let showsLast = payload.event == .end && payload.contentState == nil
      let answer = try ActivityState.revise(
        &entry.activity, isEnd: payload.event == .end, showsLast: showsLast, order: order, job: job, jobs: &entry.jobs,
        mayWait: mayWait, now: now)
      if let revision = entry.activity?.content?.revision, revision != before?.revision {
        // An end without a state is kept without the last one.
        entry.body = body(revision, showsLast ? [] : entry.contentState)
        entry.contentState = payload.contentState ?? entry.contentState
      } else if entry.activity?.content?.shownPlace != before?.shownPlace {
        // An update from before the end, which shows it.
        entry.contentState = payload.contentState ?? entry.contentState
      }
      return words(answer, entry.body)
    case .leave(_, let ordinals, let order, let job, let mayWait):
      let before = entry.activity?.leave
      var earlier: UInt32 = 0
      if case .revision(let number) = entry.jobs.find(job, last: entry.activity?.lastNumber ?? 0) { earlier = number }
      var members = ordinals.map { entry.members[$0] }
      let answer = try ActivityState.leave(
        &entry.activity, &members, order: order, job: job, jobs: &entry.jobs, mayWait: mayWait, now: now)
      guard case .begun(let revision) = answer else { return words(answer, []) }
      let body = body(revision, entry.contentState)
      if revision != before { entry.leaves.append(revision, late(body), insteadOf: earlier) }
      for (ordinal, member) in zip(ordinals, members) { entry.members[ordinal] = member }
      return words(answer, body)
    case .register(_, let ordinal, let token, let at):
      let holder = entry.holders[token].flatMap { $0 == ordinal ? nil : $0 }
      var other = holder.flatMap { entry.members[$0] }
      if let holder, other?.yields(token, at: at, hasLarger: ordinal < holder, now: now) == false {
        return "\(ActivityState.Registered.ignored) []"
      }
      let answer = ActivityState.register(
        &entry.activity, &entry.members[ordinal], token: token, at: at, leaves: entry.leaves, now: now)
      if answer != .ignored {
        if let holder, let other { entry.members[holder] = other }
        if !token.isEmpty { entry.holders[token] = ordinal }
      }
      switch answer {
      case .late(_, let isLeave):
        let leave = entry.members[ordinal].flatMap { entry.leaves.last(of: $0)?.body } ?? []
        return "\(answer) \(isLeave ? leave : entry.body)"
      case .ignored, .stored, .over: return "\(answer) []"
      }
    case .resolve(_, let push, let ordinals):
      return ordinals.map { ordinal in
        "\(entry.activity?.resolve(push, &entry.members[ordinal], now: now) ?? .skipped(.over))"
      }.description
    case .resolveStart(_, let job, let ordinals):
      var answers: [ActivityState.Started] = []
      for ordinal in ordinals {
        if let activity = entry.activity {
          answers.append(activity.resolveStart(job, isAlert: job % 3 == 0, &entry.members[ordinal], now: now))
        } else {
          answers.append(.skipped(.over))
        }
      }
      return "\(answers)"
    case .startsEnded(_, let job, let ordinals, let haveReached):
      for (ordinal, hasReached) in zip(ordinals, haveReached) {
        let isFree = entry.members[ordinal]?.startEnded(job, isAlert: job % 3 == 0, hasReached: hasReached, now: now)
        if isFree == true { entry.members[ordinal] = nil }
      }
      return "()"
    case .unregistered(_, let ordinal, let token, let at):
      return "\(entry.members[ordinal]?.unregistered(token, at: at, now: now) ?? false)"
    case .forget:
      preconditionFailure("it is no call of one activity")
    }
  }

  static func words(_ answer: ActivityState.Revised, _ body: [UInt8]) -> String {
    switch answer {
    case .superseded, .early: return "\(answer) []"
    case .begun, .waits: break
    }
    return "\(answer) \(body)"
  }
}

extension ActivityRegistry {
  /// The answer as text.
  func perform(_ call: ActivityModel.Call, in scope: AppScope, then: @escaping (String) -> Void) {
    func tell<Value>(_ words: @escaping (Value) -> String) -> Then<Value> {
      { result in
        switch result {
        case .success(let value): then(words(value))
        case .failure(let failure): then("\(failure)")
        }
      }
    }
    let edit: (ActivityRevision, [UInt8]) throws(JobError) -> [UInt8] = { revision, contentState in
      ActivityModel.body(revision, contentState)
    }
    switch call {
    case .start(let id, let payload, let job): start(id, in: scope, payload: payload, job: job, then: tell { "\($0)" })
    case .revise(let id, let payload, let order, let job, let mayWait):
      revise(
        id, in: scope, payload: payload, order: order, job: job, mayWait: mayWait, edit: edit,
        then: tell { ActivityModel.words($0.answer, $0.body) })
    case .leave(let id, let ordinals, let order, let job, let mayWait):
      let edits: (ActivityRevision, [UInt8]) throws(JobError) -> (body: [UInt8], late: [UInt8]) = { revision, last in
        let body = ActivityModel.body(revision, last)
        return (body, ActivityModel.late(body))
      }
      leave(
        id, in: scope, ordinals: ordinals, order: order, job: job, mayWait: mayWait, edit: edits,
        then: tell { ActivityModel.words($0.answer, $0.body) })
    case .register(let id, let ordinal, let token, let at):
      register(id, in: scope, ordinal: ordinal, token: token, at: at, then: tell { "\($0.answer) \($0.body)" })
    case .resolve(let id, let push, let ordinals):
      resolve(push, of: id, in: scope, to: ordinals, then: tell { $0.map { "\($0)" }.description })
    case .resolveStart(let id, let job, let ordinals):
      resolveStart(of: id, in: scope, job: job, areAlerts: job % 3 == 0, to: ordinals, then: tell { "\($0)" })
    case .startsEnded(let id, let job, let ordinals, let haveReached):
      startsEnded(
        of: id, in: scope, job: job, areAlerts: job % 3 == 0, ordinals: ordinals, haveReached: haveReached,
        then: tell { _ in "()" })
    case .unregistered(let id, let ordinal, let token, let at):
      unregistered(token, of: id, in: scope, ordinal: ordinal, at: at, then: tell { "\($0)" })
    case .forget(let ordinal): forget([ordinal], in: scope, then: tell { _ in "()" })
    }
  }
}
