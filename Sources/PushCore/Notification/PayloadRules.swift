/// Checks the payload rules of a push type. Only Apple's requirements are rules; everything else passes.
///
/// The table is built once for the hot path: two words for each rule, the rules of a kind in sequence.
struct PayloadRules: Sendable {
  private struct Test: Sendable {
    var with: UInt64
    var without: UInt64
    /// Index into `PayloadRule.table`.
    var rule: Int
  }

  private let tests: [Test]
  /// The first test of each kind, and the end of the last.
  private let starts: [Int]

  init() {
    var tests: [Test] = []
    var starts: [Int] = []
    for kind in PushTypeRules.Payload.allCases {
      starts.append(tests.count)
      for (index, rule) in PayloadRule.table.enumerated() where rule.kinds.contains(kind) {
        tests.append(Test(with: rule.with.rawValue, without: rule.without.rawValue, rule: index))
      }
    }
    self.tests = tests
    self.starts = starts + [tests.count]
  }

  /// The first rule that is broken, or nil.
  func broken(_ traits: PayloadTraits, _ kind: PushTypeRules.Payload) -> PayloadRule? {
    let place = Int(kind.rawValue)
    for index in starts[place]..<starts[place &+ 1] {
      let test = tests[index]
      if traits.rawValue & test.with == test.with && traits.rawValue & test.without == 0 {
        return PayloadRule.table[test.rule]
      }
    }
    return nil
  }

  /// The error of a payload, or nil.
  /// - Parameters:
  ///   - body: the job that `facts` were found in.
  ///   - payload: the payload's range in it.
  func violation(
    _ facts: PayloadFacts, _ kind: PushTypeRules.Payload, isWallet: Bool, isBroadcast: Bool, isOfActivity: Bool = false,
    _ body: Span<UInt8>, payload: ByteRange
  ) -> JobError? {
    if let repeated = facts.repeated {
      return JobError(
        field: repeated.path, rule: "must be there once, not twice", answer: .refuses(.badRequestPayload))
    }
    if kind == .free { return nil }
    if let fault = PayloadRules.shapeFault(facts, kind) {
      return JobError(
        field: fault.path, rule: "\(fault.key.shape.rule), not \(JobError.describe(body, valueAt: fault.offset))",
        answer: fault.answer)
    }
    guard
      let rule = broken(
        PayloadTraits(facts, isWallet: isWallet, isBroadcast: isBroadcast, isOfActivity: isOfActivity), kind)
    else {
      return nil
    }
    var text = rule.text
    if rule.showsValue {
      let path = rule.path.split(separator: ".").dropFirst().map(String.init)
      let seen = PayloadRules.value(at: path[...], body, from: Int(payload.start))
      if !text.hasSuffix("use one") {
        text += seen.map { ", not \(JobError.describe(body, valueAt: $0))" } ?? ", and is missing"
      }
    }
    return JobError(field: rule.path, rule: text, answer: rule.answer)
  }

  /// A value with the wrong shape for its key, if the key has a meaning in this kind of push.
  private static func shapeFault(_ facts: PayloadFacts, _ kind: PushTypeRules.Payload) -> PayloadFacts.Fault? {
    switch kind {
    case .free, .mdm, .fileProvider: nil
    case .alert, .background, .location, .contentChanged: facts.fault
    case .liveActivity: facts.liveActivityFault ?? facts.fault
    case .accessory: facts.accessoryFault ?? facts.fault
    }
  }

  /// The place of a key's value, found by another search: only refused payloads need it. If a key
  /// occurs twice, the last one counts.
  private static func value(at path: ArraySlice<String>, _ body: Span<UInt8>, from start: Int) -> Int? {
    var scanner = JSONScanner(position: start)
    guard let name = path.first else { return start }
    var found: Int?
    do throws(JSONError) {
      guard scanner.peek(body) == ASCII.openBrace, try scanner.beginObject(body) else { return nil }
      repeat {
        let key = try scanner.key(body)
        let isWanted = JSONEscape.unescaped(key.range, of: body).elementsEqual(name.utf8)
        if scanner.peek(body) != 0, isWanted { found = scanner.position }
        try scanner.skipValue(body)
      } while try scanner.nextMember(body)
    } catch {
      return nil
    }
    guard let found else { return nil }
    return path.count == 1 ? found : value(at: path.dropFirst(), body, from: found)
  }
}

extension PayloadFacts.Fault {
  /// The path of the key at fault.
  var path: String {
    if key.level.isNested, let parent { return "\(parent.path).\(key.row.name)" }
    return key.path
  }

  /// APNs' answer: it checks every shape except those inside a Live Activity's alert sound.
  var answer: RuleAnswer {
    key == .alertSound || parent == .alertSound ? .takes : .refuses(.badRequestPayload)
  }
}
