package import PushCore

/// Gives jobs of activities their revision, and makes the jobs to send.
///
/// A duplicate gets the same answer. Not Sendable: it belongs to its registry's loop's thread.
package final class ActivityTaker {
  /// The result for a job.
  package enum Taken: Sendable {
    /// Send this body instead: it has the revision.
    case publish([UInt8])
    /// Its timestamp is not due: take the job again after this delay.
    case waits(number: UInt32, milliseconds: Int64)
    /// The activity is not known. Its start may be under way: take the job again.
    case early
    /// A newer job came first: this one ends `throttled`. `number`: its revision; 0: it has none.
    case superseded(number: UInt32)
    /// The job is invalid.
    case refused(JobError)
    /// Redis did not answer, or what it holds cannot be read.
    case failed(ActivityRegistryFailure)
  }

  private let activities: ActivityRegistry
  private let settings: ActivitySettings
  /// Activities with a job in progress, and what waits for that. All jobs of one change the same value: taken at once, each but one would
  /// read and decide again, in every round.
  private var turns: [Activity: [() -> Void]] = [:]

  private struct Activity: Hashable {
    let id: ActivityID
    let scope: AppScope
  }

  /// Called for each job that is sent, and perhaps not what its producer wants.
  package var onWarning: (ActivityWarning, AppScope) -> Void = { _, _ in }

  package init(_ activities: ActivityRegistry, settings: ActivitySettings) {
    self.activities = activities
    self.settings = settings
  }

  /// - Parameters:
  ///   - body: of the job, which is parsed and names an activity.
  ///   - leaving: ordinals of the devices that it ends for, where it names some, and their fingerprints.
  ///   - way: of its updates, where it is the activity's first start. Take it again once that is decided; the body is of use only then.
  ///   - mayWait: for its start, if the activity is not known.
  package func take(
    _ job: consuming PushJob, in scope: AppScope, order: JobOrder = .arrival,
    leaving: (ordinals: [UInt32], devices: [UInt32]), way: ActivityState.UpdateWay = .tokens, mayWait: Bool = false,
    then answer: @escaping (Taken) -> Void
  ) {
    let bytes = job.bytes
    let word = ActivityJobs.word(of: bytes.span.extracting(job.id.range))
    guard let id = ActivityID(String(decoding: bytes[job.activity.range], as: UTF8.self)) else {
      preconditionFailure("the parser checked the activity's id")
    }
    let payload: ActivityPayload
    do throws(JobError) {
      payload = try ActivityPayload(Array(bytes[job.payload.range]))
    } catch {
      return answer(.refused(error))
    }
    let kind = job.targetKind
    let draft = Draft(job, payload, id, settings, now: activities.now / 1_000)
    let field = kind == .activity ? "to.activity" : "activity"
    let taken: (Taken) -> Void = { [self] in
      if case .publish = $0, way.isDecided { warn(payload, scope) }
      answer($0)
    }
    inTurn(Activity(id: id, scope: scope), then: taken) { [self] then in
      take(payload, kind, order, word, draft, id, scope, leaving, way, mayWait, field, then)
    }
  }

  private func warn(_ payload: ActivityPayload, _ scope: AppScope) {
    if payload.event != .end, !payload.hasStaleDate, settings.staleAfterSeconds == nil {
      onWarning(.noStaleDate, scope)
    }
    if payload.event == .start, payload.inputPushChannel != nil { onWarning(.ownChannel, scope) }
  }

  /// Work on one activity is done one after the other, in order of arrival.
  private func inTurn(
    _ activity: Activity, then: @escaping (Taken) -> Void, _ work: @escaping (@escaping (Taken) -> Void) -> Void
  ) {
    let turn = { [self] in
      work { [self] taken in
        then(taken)
        guard var waiting = turns[activity], !waiting.isEmpty else {
          turns[activity] = nil
          return
        }
        let next = waiting.removeFirst()
        turns[activity] = waiting
        next()
      }
    }
    guard turns[activity] == nil else {
      turns[activity]?.append(turn)
      return
    }
    turns[activity] = []
    turn()
  }

  private func take(
    _ payload: ActivityPayload, _ kind: PushJob.TargetKind, _ order: JobOrder, _ word: UInt64, _ draft: Draft,
    _ id: ActivityID, _ scope: AppScope, _ leaving: (ordinals: [UInt32], devices: [UInt32]),
    _ way: ActivityState.UpdateWay, _ mayWait: Bool, _ field: String, _ then: @escaping (Taken) -> Void
  ) {
    switch (payload.event, kind) {
    case (.start, _): start(id, scope, payload, way, word, draft, field, then)
    case (.end, .devices):
      let edit = { (revision: ActivityRevision, last: [UInt8]) throws(JobError) in
        (
          body: try draft.body(revision, last: last, isLeave: true),
          late: try draft.body(revision, last: last, isLeave: true, isForNobody: true)
        )
      }
      activities.leave(
        id, in: scope, ordinals: leaving.ordinals, devices: leaving.devices, order: order, job: word, mayWait: mayWait,
        edit: edit
      ) {
        then(ActivityTaker.taken($0, field))
      }
    case (.update, _), (.end, _):
      let edit = { (revision: ActivityRevision, last: [UInt8]) throws(JobError) in
        try draft.body(revision, last: last, isLeave: false)
      }
      activities.revise(id, in: scope, payload: payload, order: order, job: word, mayWait: mayWait, edit: edit) {
        then(ActivityTaker.taken($0, field))
      }
    }
  }

  /// Checks the start's body before any device counts as started.
  private func start(
    _ id: ActivityID, _ scope: AppScope, _ payload: ActivityPayload, _ way: ActivityState.UpdateWay, _ word: UInt64,
    _ draft: Draft, _ field: String, _ then: @escaping (Taken) -> Void
  ) {
    let any = ActivityRevision(number: .max, timestamp: activities.now / 1_000)
    do throws(JobError) {
      _ = try draft.body(any, last: [], isLeave: false)
    } catch {
      return then(.refused(error))
    }
    var way = way
    if case .channel(let channel) = way, (try? draft.body(any, last: [], channel: channel, isLeave: false)) == nil {
      // The payload has no room for it.
      way = .tokens
    }
    activities.start(id, in: scope, payload: payload, way: way, job: word) { result in
      switch result {
      case .failure(let failure): then(ActivityTaker.taken(failure, field))
      case .success(let revision):
        do throws(JobError) {
          then(.publish(try draft.body(revision, last: [], isLeave: false)))
        } catch {
          then(.refused(error))
        }
      }
    }
  }

  /// Nobody wants the results any more: what waits for its turn is not done. It would hold this taker, and its caller.
  package func forget() { turns = [:] }

  private static func taken(
    _ result: Result<ActivityRegistry.Revised, ActivityRegistryFailure>, _ field: String
  ) -> Taken {
    switch result {
    case .failure(let failure): return taken(failure, field)
    case .success(let revised):
      switch revised.answer {
      case .begun: return .publish(revised.body)
      case .waits(let revision, let milliseconds): return .waits(number: revision.number, milliseconds: milliseconds)
      case .superseded(let number, _): return .superseded(number: number)
      case .early: return .early
      }
    }
  }

  private static func taken(_ failure: ActivityRegistryFailure, _ field: String) -> Taken {
    switch failure {
    case .refused(_, let refusal): .refused(JobError(field: field, rule: refusal.text))
    case .invalid(let error): .refused(error)
    case .contended, .redis, .unreadable: .failed(failure)
    }
  }

  /// A job that waits for its revision.
  private final class Draft {
    private let job: PushJob
    private let payload: ActivityPayload
    private let id: ActivityID
    private let settings: ActivitySettings
    /// Unix seconds.
    private let now: Int64

    init(
      _ job: consuming PushJob, _ payload: ActivityPayload, _ id: ActivityID, _ settings: ActivitySettings, now: Int64
    ) {
      self.job = job
      self.payload = payload
      self.id = id
      self.settings = settings
      self.now = now
    }

    /// - Parameters:
    ///   - last: the newest content state before it; empty: none.
    ///   - channel: of a start: that updates come on.
    func body(
      _ revision: ActivityRevision, last: [UInt8], channel: ChannelID? = nil, isLeave: Bool, isForNobody: Bool = false
    ) throws(JobError) -> [UInt8] {
      var edits = ActivityEdits(timestamp: revision.timestamp)
      if let attribute = settings.idAttribute { edits.id = (id, attribute) }
      edits.staleAfterSeconds = settings.staleAfterSeconds
      edits.contentState = last.isEmpty ? nil : last
      edits.inputPushChannel = channel?.text
      let edited = try payload.edited(edits)
      try ActivityPayload.check(length: edited.count, isBroadcast: false)
      var body: [UInt8] = []
      ActivityJobWriter.append(
        job, payload, edited: edited, revision, isLeave: isLeave, isForNobody: isForNobody, now: now, to: &body)
      return body
    }
  }
}
