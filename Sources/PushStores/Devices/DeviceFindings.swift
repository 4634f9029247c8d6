import PushCore
import PushIO

/// The reply of `DeviceScript.find` for one transaction.
struct DeviceFindings {
  /// The ordinals of a set, and their records.
  struct SetValue {
    var ordinals: [UInt8] = []
    var records: [[UInt8]?] = []
  }

  private var id = SetValue()
  private var tokens: [SetValue] = []
  /// The record of the requested ordinal.
  private var own: [UInt8]?
  private var newOrdinal: UInt32?

  // MARK: - Asking

  static func arguments(_ transactions: [DeviceTransaction]) -> RedisArguments {
    var arguments = RedisArguments()
    arguments.append(DeviceLimits.ordinalRestSeconds)
    for transaction in transactions {
      var id: DeviceSet?
      var ordinal = ""
      switch transaction.place {
      case .id(let text): id = .id(text)
      case .ordinal(let number): ordinal = String(number)
      case .token: break
      }
      append(id, to: &arguments)
      arguments.append(ordinal)
      if case .register = transaction.action {
        arguments.append(transaction.wantsOrdinal ? "2" : "1")
      } else {
        arguments.append("0")
      }
      let tokenSets = transaction.tokenSets
      arguments.append(tokenSets.count)
      for set in tokenSets { append(set, to: &arguments) }
    }
    return arguments
  }

  private static func append(_ set: DeviceSet?, to arguments: inout RedisArguments) {
    guard let set else {
      arguments.append("")
      return arguments.append("")
    }
    let name = DeviceSetName(set)
    arguments.append(Int64(name.bucket))
    arguments.append(name.wordBytes)
  }

  // MARK: - Reading

  /// One for each transaction; nil: not a reply of the script.
  static func parse(_ reply: RedisReply, of transactions: [DeviceTransaction]) -> [DeviceFindings]? {
    guard case .array(let items) = reply, items.count == transactions.count else { return nil }
    var all: [DeviceFindings] = []
    /// By ordinal.
    var records: [UInt32: [UInt8]] = [:]
    for (item, transaction) in zip(items, transactions) {
      guard case .array(let parts) = item, parts.count >= 3 else { return nil }
      var findings = DeviceFindings()
      guard let id = SetValue(parts[0], &records) else { return nil }
      findings.id = id
      if case .ordinal(let ordinal) = transaction.place { findings.own = record(parts[1], ordinal, &records) }
      if case .integer(let ordinal) = parts[2] {
        guard let ordinal = UInt32(exactly: ordinal) else { return nil }
        findings.newOrdinal = ordinal
      }
      for part in parts.dropFirst(3) {
        guard let token = SetValue(part, &records) else { return nil }
        findings.tokens.append(token)
      }
      all.append(findings)
    }
    return all
  }

  /// - Parameter records: those that the reply had before, by ordinal.
  fileprivate static func record(
    _ reply: RedisReply, _ ordinal: UInt32, _ records: inout [UInt32: [UInt8]]
  ) -> [UInt8]? {
    if case .bulk(let bytes) = reply { records[ordinal] = bytes }
    if case .null = reply { return nil }
    return records[ordinal]
  }

  /// The devices of the transaction.
  func found(
    _ transaction: DeviceTransaction, _ words: borrowing DeviceWords
  ) throws(DeviceRecordError) -> DeviceTransaction.Found {
    var found = DeviceTransaction.Found()
    found.idSet = id.ordinals
    found.tokenSets = tokens.map(\.ordinals)
    found.newOrdinal = newOrdinal
    switch transaction.place {
    case .id(let text):
      found.device = try first(id, words) { $0.id.hasBytes(of: text) }
      for (set, value) in zip(transaction.tokenSets, tokens) {
        let holder = try first(value, words) { $0.hasToken(of: set) && !$0.id.hasBytes(of: text) }
        if let holder, !found.holders.contains(where: { $0.ordinal == holder.ordinal }) { found.holders.append(holder) }
      }
    case .ordinal(let ordinal):
      if let own {
        let (record, numbers) = try DeviceRecord.decoded(own, words)
        found.device = DeviceTransaction.Known(ordinal: ordinal, bytes: own, record: record, words: numbers)
      }
    case .token(let bytes):
      if let value = tokens.first { found.device = try first(value, words) { $0.token?.bytes == bytes } }
    }
    return found
  }

  /// A set's name is a hash, so a set may hold members of another one with the same hash.
  private func first(
    _ value: SetValue, _ words: borrowing DeviceWords, _ isConcerned: (DeviceRecord) -> Bool
  ) throws(DeviceRecordError) -> DeviceTransaction.Known? {
    for (index, bytes) in value.records.enumerated() {
      guard let bytes else { continue }
      let (record, numbers) = try DeviceRecord.decoded(bytes, words)
      guard isConcerned(record) else { continue }
      let ordinal = OrdinalList.ordinal(value.ordinals, index)
      return DeviceTransaction.Known(ordinal: ordinal, bytes: bytes, record: record, words: numbers)
    }
    return nil
  }
}

extension DeviceFindings.SetValue {
  fileprivate init?(_ reply: RedisReply, _ known: inout [UInt32: [UInt8]]) {
    switch reply {
    case .null: self.init()
    case .array(let parts):
      // Without records: they are those of the id.
      guard case .bulk(let ordinals) = parts.first, parts.count == 1 || ordinals.count == (parts.count - 1) * 4 else {
        return nil
      }
      self.init(ordinals: ordinals)
      for (index, part) in parts.dropFirst().enumerated() {
        records.append(DeviceFindings.record(part, OrdinalList.ordinal(ordinals, index), &known))
      }
    case .integer, .bulk, .status, .error: return nil
    }
  }
}
