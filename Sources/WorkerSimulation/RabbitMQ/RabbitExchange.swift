/// An exchange and its bindings.
final class RabbitExchange {
  enum Kind: String {
    case direct, fanout, topic, headers
  }

  private struct Binding {
    let queue: RabbitQueue
    let key: [UInt8]
    let arguments: RabbitTable
    /// For a topic exchange: the words of the key.
    let words: [ArraySlice<UInt8>]
  }

  let name: [UInt8]
  let kind: Kind
  let isDurable: Bool
  let isAutoDelete: Bool
  let isInternal: Bool
  let arguments: RabbitTable
  /// The exchange for messages that match no binding here.
  let alternate: [UInt8]?
  private var bindings: [Binding] = []
  /// For a direct exchange: the queues of each key.
  private var direct: [[UInt8]: [RabbitQueue]] = [:]

  private static let bindingsMaximum = 100_000

  init(
    name: [UInt8], kind: Kind, isDurable: Bool, isAutoDelete: Bool, isInternal: Bool, arguments: RabbitTable
  ) {
    self.name = name
    self.kind = kind
    self.isDurable = isDurable
    self.isAutoDelete = isAutoDelete
    self.isInternal = isInternal
    self.arguments = arguments
    alternate = arguments["alternate-exchange"]?.text
  }

  var hasBindings: Bool { !bindings.isEmpty }

  func bind(_ queue: RabbitQueue, key: [UInt8], arguments: RabbitTable) {
    guard !bindings.contains(where: { $0.queue === queue && $0.key == key && $0.arguments == arguments }) else {
      return
    }
    precondition(bindings.count < RabbitExchange.bindingsMaximum, "too many bindings")
    bindings.append(Binding(queue: queue, key: key, arguments: arguments, words: RabbitExchange.words(key)))
    rebuild()
  }

  func unbind(_ queue: RabbitQueue, key: [UInt8], arguments: RabbitTable) {
    bindings.removeAll { $0.queue === queue && $0.key == key && $0.arguments == arguments }
    rebuild()
  }

  /// Removes the bindings of a deleted queue.
  func forget(_ queue: RabbitQueue) {
    bindings.removeAll { $0.queue === queue }
    rebuild()
  }

  private func rebuild() {
    direct = [:]
    for binding in bindings where direct[binding.key]?.contains(where: { $0 === binding.queue }) != true {
      direct[binding.key, default: []].append(binding.queue)
    }
  }

  /// The queues that a message is routed to, without duplicates.
  func queues(for key: [UInt8]) -> [RabbitQueue] {
    switch kind {
    case .direct: return direct[key] ?? []
    case .fanout: return unique(bindings)
    case .topic:
      let words = RabbitExchange.words(key)
      return unique(bindings.filter { RabbitExchange.matches($0.words[...], words[...]) })
    // Herald binds nothing to a headers exchange.
    case .headers: return []
    }
  }

  private func unique(_ bindings: [Binding]) -> [RabbitQueue] {
    var queues: [RabbitQueue] = []
    for binding in bindings where !queues.contains(where: { $0 === binding.queue }) { queues.append(binding.queue) }
    return queues
  }

  private static func words(_ key: [UInt8]) -> [ArraySlice<UInt8>] {
    // An empty key has no words.
    key.isEmpty ? [] : key.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
  }

  /// `*` matches one word, `#` any number of words.
  private static func matches(_ pattern: ArraySlice<ArraySlice<UInt8>>, _ words: ArraySlice<ArraySlice<UInt8>>) -> Bool
  {
    guard let first = pattern.first else { return words.isEmpty }
    if first.elementsEqual([UInt8(ascii: "#")]) {
      if pattern.count == 1 { return true }
      for index in words.startIndex...words.endIndex where matches(pattern.dropFirst(), words[index...]) { return true }
      return false
    }
    guard let word = words.first, first.elementsEqual([UInt8(ascii: "*")]) || first.elementsEqual(word) else {
      return false
    }
    return matches(pattern.dropFirst(), words.dropFirst())
  }
}
