/// The faults that are set, and which of them match a request.
package struct FaultPlan: Sendable {
  package struct Active: Sendable {
    package let id: Int
    package let rule: FaultRule
    /// Requests matched so far.
    package var count = 0
  }

  /// The facts about a request that faults match.
  package struct Subject: Sendable {
    /// Lower-case hexadecimal digits; empty for broadcasts and channels.
    package var token: String
    package var topic: String
    package var pushType: String
    /// `apns-id`, or another value that a retry repeats.
    package var identity: String
    /// Earlier requests of the connection.
    package var earlierRequests: Int
    /// The connection's number in the ledger.
    package var connection: Int

    package init(
      token: String, topic: String, pushType: String, identity: String, earlierRequests: Int, connection: Int = 0
    ) {
      self.token = token
      self.topic = topic
      self.pushType = pushType
      self.identity = identity
      self.earlierRequests = earlierRequests
      self.connection = connection
    }
  }

  package private(set) var active: [Active] = []
  /// The combined effect of all set faults on connections.
  package private(set) var connection = ConnectionFaults()
  package var prefixes: TokenPrefixTable
  private var nextID = 1
  private var random: SeededBits
  /// Tries so far of notifications that a rule counts.
  private var attempts: [String: Int] = [:]
  private static let attemptsMaximum = 1_000_000

  package init(prefixes: TokenPrefixTable, seed: UInt64) {
    self.prefixes = prefixes
    random = SeededBits(seed: seed)
  }

  /// Sets a fault; `remove` takes its id.
  @discardableResult
  package mutating func add(_ rule: FaultRule) -> Int {
    let id = nextID
    nextID += 1
    active.append(Active(id: id, rule: rule))
    connection.add(rule.connection)
    return id
  }

  @discardableResult
  package mutating func remove(_ id: Int) -> Bool {
    let count = active.count
    active.removeAll { $0.id == id }
    sumUp()
    return active.count < count
  }

  package mutating func removeAll() {
    active.removeAll()
    sumUp()
  }

  private mutating func sumUp() {
    connection = ConnectionFaults()
    for fault in active { connection.add(fault.rule.connection) }
  }

  /// The effect on this request; nil: none. If several faults match, earlier ones win, part by part.
  package mutating func effect(on subject: Subject) -> FaultEffect? {
    var effect = FaultEffect()
    for index in active.indices where meets(active[index], subject) {
      active[index].count += 1
      effect.fill(from: active[index].rule.effect)
    }
    if !prefixes.isEmpty, let rule = prefixes.rule(for: subject.token.utf8.span), isEarlyEnough(rule, "prefix", subject)
    {
      effect.fill(from: rule.effect)
    }
    return effect.isEmpty ? nil : effect
  }

  package mutating func milliseconds(of latency: FaultEffect.Latency) -> Int64 {
    latency.milliseconds(&random)
  }

  private mutating func meets(_ fault: Active, _ subject: Subject) -> Bool {
    let rule = fault.rule
    if rule.effect.isEmpty { return false }
    if let times = rule.times, fault.count >= times { return false }
    if subject.earlierRequests < rule.after { return false }
    if let number = rule.connectionNumber, subject.connection != number { return false }
    if let prefix = rule.tokenPrefix, !subject.token.hasPrefix(prefix) { return false }
    if let topic = rule.topic, subject.topic != topic { return false }
    if let pushType = rule.pushType, subject.pushType != pushType { return false }
    if rule.share < 1, random.fraction() >= rule.share { return false }
    return isEarlyEnough(rule, String(fault.id), subject)
  }

  /// Counts the try, if the rule counts tries.
  private mutating func isEarlyEnough(_ rule: FaultRule, _ name: String, _ subject: Subject) -> Bool {
    guard let limit = rule.attempts else { return true }
    if attempts.count >= FaultPlan.attemptsMaximum { attempts.removeAll() }
    let key = name + ":" + subject.identity
    let count = attempts[key, default: 0] + 1
    attempts[key] = count
    return count <= limit
  }
}
