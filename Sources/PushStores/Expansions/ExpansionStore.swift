package import PushCore
import PushIO

/// The progress of audiences in Redis. Not Sendable: it belongs to its client's loop's thread, and calls every `then`
/// there.
package final class ExpansionStore {
  package typealias Then<Value> = (Result<Value, RedisClient.Failure>) -> Void

  /// What a step has to do.
  package enum Opening: Hashable, Sendable {
    case done
    /// Its outcome is published, and its first message came again.
    case completed
    case evaluate(from: UInt32)
    case publish(Fixed)
    case paused
    case full
  }

  /// A step whose pages are fixed.
  package struct Fixed: Hashable, Sendable {
    package var pages: Range<UInt32>
    /// nil: there is no further step.
    package var next: ExpansionCursor?
    package var isComplete: Bool
  }

  /// How long progress is kept after its last change, seconds.
  package static let seconds = 86_400
  /// More pages were fixed by no step: each has a device of it.
  static let stepPagesMaximum: UInt32 = 65_536

  private let redis: RedisClient
  private let prefix: String
  private let now: () -> Int64

  /// - Parameter now: Unix milliseconds.
  package init(_ redis: RedisClient, prefix: String, now: @escaping () -> Int64) {
    self.redis = redis
    self.prefix = prefix
    self.now = now
  }

  private func keys(_ job: AudienceID) -> ExpansionKeys { ExpansionKeys(prefix: prefix, job) }

  // MARK: steps

  /// - Parameters:
  ///   - openMaximum: no step fixes more pages from this number of open pages on.
  ///   - body: stored with the job's first message, like `metadata`.
  package func open(
    _ job: AudienceID, _ cursor: ExpansionCursor, openMaximum: Int, isDryRun: Bool,
    metadata: MessageMetadata, body: [UInt8], then: @escaping Then<Opening>
  ) {
    let scope = job.scope
    let arguments =
      [
        "\(cursor.step)", "\(cursor.ordinal)", "\(cursor.pages)", "\(cursor.devices)", "\(openMaximum)", "\(now())",
        "\(ExpansionStore.seconds)", scope.app, scope.environment.name,
      ] + metadata.facts + ["dry", isDryRun ? "1" : "0"]
    eval(ExpansionScript.open, keys(job).all, arguments, last: body) { reply in
      guard let words = reply.words, let first = words.first else { return nil }
      switch (first, words.count) {
      case ("done", _): return .done
      case ("completed", _): return .completed
      case ("paused", _): return .paused
      case ("full", _): return .full
      case ("evaluate", 2): return UInt32(words[1]).map { .evaluate(from: $0) }
      case ("publish", 6): return ExpansionStore.fixed(words, step: cursor.step).map { .publish($0) }
      default: return nil
      }
    } then: {
      then($0)
    }
  }

  /// - Parameters:
  ///   - pages: empty for a dry run.
  ///   - counted: devices of a dry run.
  ///   - next: where the next step starts; nil: this was the last one.
  ///   - ordinals: that the scope has allocated.
  /// - Returns: nil: another worker or a command came meanwhile; open the step again.
  package func fix(
    _ job: AudienceID, step: UInt32, pages: [PageOrdinals], counted: UInt64, next: UInt32?, ordinals: UInt32,
    then: @escaping Then<Fixed?>
  ) {
    let keys = keys(job)
    var arguments = [
      "\(step)", next.map { "\($0)" } ?? "", "\(counted)", "\(ordinals)", "\(now())", "\(ExpansionStore.seconds)",
    ]
    for page in pages {
      arguments.append("\(page.count)")
      arguments.append(page.stored)
      arguments.append(String(decoding: page.fingerprints, as: UTF8.self))
    }
    eval(ExpansionScript.fix, [keys.state, keys.pages, keys.ordinals], arguments) { reply -> Fixed?? in
      guard let words = reply.words, let first = words.first else { return nil }
      if first == "again" { return .some(nil) }
      return ExpansionStore.fixed(words, step: step)
    } then: {
      then($0)
    }
  }

  private static func fixed(_ words: [String], step: UInt32) -> Fixed? {
    guard words.count == 6, let first = UInt32(words[1]), let end = UInt32(words[2]), first <= end,
      end - first <= ExpansionStore.stepPagesMaximum, let devices = UInt64(words[4])
    else { return nil }
    let next = UInt32(words[3]).map { ExpansionCursor(step: step + 1, ordinal: $0, pages: end, devices: devices) }
    return Fixed(pages: first..<end, next: next, isComplete: words[5] == "1")
  }

  /// The devices of pages; nil: all devices of this page have their outcomes.
  package func ordinals(_ job: AudienceID, of pages: Range<UInt32>, then: @escaping Then<[PageOrdinals?]>) {
    guard !pages.isEmpty else { return then(.success([])) }
    let key = keys(job).ordinals
    redis.call(["HMGET", key] + pages.flatMap { ["\($0)", "f\($0)"] }, key: key) { result in
      then(
        result.flatMap { reply in
          guard case .array(let values) = reply, values.count == 2 * pages.count else { return .failure(.unexpected) }
          return .success(
            stride(from: 0, to: values.count, by: 2).map { index in
              guard case .bulk(let ordinals) = values[index] else { return nil }
              var fingerprints: [UInt8] = []
              if case .bulk(let bytes) = values[index + 1] { fingerprints = bytes }
              return PageOrdinals(stored: ordinals, fingerprints: fingerprints)
            })
        })
    }
  }

  /// Stores why a step finds no more devices, before it is fixed as the last one.
  package func endEarly(_ job: AudienceID, because why: String, then: @escaping Then<Void>) {
    eval(ExpansionScript.endEarly, [keys(job).state], [why]) { _ in
      ()
    } then: {
      then($0)
    }
  }

  package func published(_ job: AudienceID, step: UInt32, then: @escaping Then<Void>) {
    eval(ExpansionScript.published, [keys(job).state], ["\(step)"]) { _ in
      ()
    } then: {
      then($0)
    }
  }

  /// Ends the job before its first step: steps of it that are still in a queue do nothing.
  /// - Parameter why: stored, so that a redelivered job ends in the same way.
  /// - Returns: the reason of the first call; nil: the job has a step, which decides its end.
  package func withdraw(_ job: AudienceID, because why: String, then: @escaping Then<String?>) {
    let arguments = [why, "\(now())", "\(ExpansionStore.seconds)", job.scope.app, job.scope.environment.name]
    eval(ExpansionScript.withdraw, keys(job).all, arguments) { reply -> String?? in
      reply == .null ? .some(nil) : reply.text.map { .some($0) }
    } then: {
      then($0)
    }
  }

  // MARK: ends

  /// Call before the first step of an activity's update or end is fixed, if it has a broadcast too.
  package func expectBroadcast(_ job: AudienceID, then: @escaping Then<Void>) {
    eval(ExpansionScript.expectBroadcast, [keys(job).state], []) { _ in
      ()
    } then: {
      then($0)
    }
  }

  /// Returns the job if it is complete now.
  package func settle(_ settlement: PageSettlement, then: @escaping Then<AudienceID?>) {
    guard let job = settlement.job else {
      // Of the build before.
      return formerScope(ofParent: settlement.parentID) { [self] result in
        switch result {
        case .failure(let failure): then(.failure(failure))
        case .success(nil): then(.success(nil))
        case .success(let scope?):
          var settlement = settlement
          settlement.scope = scope
          settle(settlement, then: then)
        }
      }
    }
    let keys = keys(job).all
    let read: (RedisReply) -> AudienceID?? = { .some($0 == .integer(1) ? job : nil) }
    guard settlement.page != AudiencePage.broadcastNumber else {
      let texts = [settlement.ends.prefix(1), settlement.reason[...]].map { String(decoding: $0, as: UTF8.self) }
      let arguments = texts + ["\(now())", "\(ExpansionStore.seconds)"]
      return eval(ExpansionScript.settleBroadcast, keys, arguments, read, then: then)
    }
    let arguments = [
      "\(settlement.page)", "\(settlement.position)", String(decoding: settlement.ends, as: UTF8.self), "\(now())",
      "\(ExpansionStore.seconds)", String(decoding: settlement.ordinals, as: UTF8.self),
      String(decoding: settlement.fingerprints, as: UTF8.self),
    ]
    eval(ExpansionScript.settle, keys, arguments, read, then: then)
  }

  /// The app whose job had this id in the build before; nil: there was none.
  private func formerScope(ofParent id: [UInt8], then: @escaping Then<AppScope?>) {
    let key = ExpansionKeys.formerState(prefix: prefix, id: String(decoding: id, as: UTF8.self))
    redis.call(["HMGET", key, "app", "environment"], key: key) { result in
      then(
        result.flatMap { reply in
          guard case .array(let values) = reply, values.count == 2 else { return .failure(.unexpected) }
          guard let app = values[0].text, let name = values[1].text else { return .success(nil) }
          return .success(APNsEnvironment(name: name).flatMap { AppScope(app: app, environment: $0) })
        })
    }
  }

  /// What Redis knows of a page.
  package struct PageState: Hashable, Sendable {
    /// Of its job.
    package var standing: AudienceStanding
    /// How the devices of the page's copy ended: `PageEnd` letters from its position on, `PageEnd.open` for those that have not ended, and
    /// where that is not known. A page without open devices has no letters any more: then they are not `open`, whatever they are. nil: Redis
    /// has another page of this number: it was emptied, and the page was made anew.
    package var ends: [UInt8]?
  }

  /// - Parameters:
  ///   - page: of this job, without `ends`.
  ///   - count: the number of the copy's devices.
  package func state(
    of page: PageSettlement, _ count: Int, in job: AudienceID, then: @escaping Then<PageState>
  ) {
    eval(
      ExpansionScript.page, keys(job).all, ["\(page.page)", "\(ExpansionStore.seconds)"]
    ) { reply -> PageState? in
      guard case .array(let values) = reply, values.count == 9 else { return nil }
      let standing = AudienceStanding(phase: values[0], isCancelled: values[1])
      guard case .bulk(let letters) = values[5] else {
        let isSettled = ExpansionStore.isSettled(page.page, values)
        let letter = isSettled ? PageEnd.skipped.letter : PageEnd.open
        return PageState(standing: standing, ends: Array(repeating: letter, count: count))
      }
      let ends = Array(letters.dropFirst(page.position).prefix(count))
      guard ends.count == count else { return PageState(standing: standing, ends: nil) }
      // Where it has no page any more, nothing contradicts these devices.
      guard case .bulk(let ordinals) = values[6] else { return PageState(standing: standing, ends: ends) }
      var fingerprints: [UInt8] = []
      if case .bulk(let bytes) = values[7] { fingerprints = bytes }
      let stored = PageOrdinals(stored: ordinals, fingerprints: fingerprints)
      return PageState(standing: standing, ends: stored.has(page, count) ? ends : nil)
    } then: {
      then($0)
    }
  }

  /// Whether a page that has no letters had some. If Redis forgot them, it is sent again: twice is better than never.
  private static func isSettled(_ page: UInt32, _ values: [RedisReply]) -> Bool {
    guard let pages = values[2].text.flatMap(UInt32.init), page < pages, values[4] == .null else { return false }
    // Where the audience was given up, its pages may still be in a queue.
    return values[2] == values[3] || values[8] == .integer(1)
  }

  /// Whether the pages of a job may be sent, and other pushes of its state.
  package func standing(of job: AudienceID, then: @escaping Then<AudienceStanding>) {
    eval(ExpansionScript.standing, keys(job).all, []) { reply -> AudienceStanding? in
      guard case .array(let values) = reply, values.count == 3 else { return nil }
      return values[2].text != nil ? .running : AudienceStanding(phase: values[0], isCancelled: values[1])
    } then: {
      then($0)
    }
  }

  /// Stores that a cancelled job stays its activity's newest: from now on others are sent its state.
  package func keep(_ job: AudienceID, as kept: ExpansionProgress.Kept, then: @escaping Then<Void>) {
    eval(ExpansionScript.keep, [keys(job).state], [kept.rawValue]) { _ in
      ()
    } then: {
      then($0)
    }
  }

  /// The state of a job; nil: unknown.
  package func progress(_ job: AudienceID, then: @escaping Then<ExpansionProgress?>) {
    eval(ExpansionScript.progress, keys(job).all, []) { reply -> ExpansionProgress?? in
      guard case .array(let values) = reply else { return nil }
      if values.isEmpty { return .some(nil) }
      var fields: [String: String] = [:]
      for index in stride(from: 0, to: values.count - 1, by: 2) {
        if let name = values[index].text, let value = values[index + 1].text { fields[name] = value }
      }
      return ExpansionProgress(fields).map { .some($0) }
    } then: {
      then($0)
    }
  }

  /// The job's body; nil: completed or unknown.
  package func body(_ job: AudienceID, then: @escaping Then<[UInt8]?>) {
    let key = keys(job).body
    redis.call(["GET", key], key: key) { result in
      then(result.map { reply in if case .bulk(let bytes) = reply { bytes } else { nil } })
    }
  }

  /// Call before the newest state of the job's activity is broadcast once more. Returns whether this is the first call.
  package func repeatBroadcast(_ job: AudienceID, then: @escaping Then<Bool>) {
    eval(ExpansionScript.repeatBroadcast, [keys(job).state], []) {
      $0 == .integer(1)
    } then: {
      then($0)
    }
  }

  /// Stores that the job's outcome is published.
  package func finish(_ job: AudienceID, then: @escaping Then<Void>) {
    let keys = keys(job)
    let arguments = ["\(ExpansionStore.seconds)", "\(now())"]
    eval(ExpansionScript.finish, [keys.state, keys.body, keys.pages, keys.ordinals], arguments) { _ in
      ()
    } then: {
      then($0)
    }
  }

  /// Removes a job that has no pages.
  package func forget(_ job: AudienceID, then: @escaping Then<Void>) {
    let keys = keys(job)
    redis.call(["DEL", keys.state, keys.body], key: keys.state) { then($0.map { _ in }) }
  }

  // MARK: commands

  /// The result of a command: the phase before and after; nil: unknown job.
  package func control(
    _ command: ExpansionState.Command, _ job: AudienceID,
    then: @escaping Then<(before: ExpansionState.Phase, after: ExpansionState.Phase, isTaken: Bool)?>
  ) {
    eval(ExpansionScript.command, keys(job).all, [command.rawValue]) {
      reply -> (before: ExpansionState.Phase, after: ExpansionState.Phase, isTaken: Bool)?? in
      guard let words = reply.words else { return nil }
      if words.isEmpty { return .some(nil) }
      guard words.count == 3, let before = ExpansionState.Phase(rawValue: words[0]),
        let after = ExpansionState.Phase(rawValue: words[1])
      else { return nil }
      return (before, after, words[2] == "1")
    } then: {
      then($0)
    }
  }

  private func eval<Value>(
    _ script: LuaScript, _ keys: [String], _ arguments: [String], last: [UInt8]? = nil,
    _ read: @escaping (RedisReply) -> Value?, then: @escaping Then<Value>
  ) {
    var encoded = RedisArguments()
    for argument in arguments { encoded.append(argument) }
    if let last { encoded.append(last) }
    redis.run(script, keys: keys, encoded) { result in
      then(
        result.flatMap { reply in
          guard let value = read(reply) else { return .failure(.unexpected) }
          return .success(value)
        })
    }
  }
}

extension RedisClient.Failure {
  fileprivate static let unexpected = RedisClient.Failure(
    text: "unexpected reply about an audience: does something else use its keys?")
}

extension AudienceStanding {
  /// - Parameters: as Redis has them.
  fileprivate init(phase: RedisReply, isCancelled: RedisReply) {
    if isCancelled.text == "1" {
      self = .cancelled
    } else {
      self = phase.text.flatMap(ExpansionState.Phase.init) == .paused ? .paused : .running
    }
  }
}

extension RedisReply {
  /// An array of texts and numbers.
  fileprivate var words: [String]? {
    guard case .array(let values) = self else { return nil }
    return values.map { value in
      if case .integer(let number) = value { "\(number)" } else { value.text ?? "" }
    }
  }
}
