/// A FIFO queue on an array: removes at the head in constant time, and compacts the array now and then.
struct RabbitFIFO<Element> {
  private var elements: [Element] = []
  private var head = 0
  private static var slackMaximum: Int { 64 }

  var count: Int { elements.count - head }
  var isEmpty: Bool { head == elements.count }
  var first: Element? { isEmpty ? nil : elements[head] }
  /// All elements, from the head on.
  var all: ArraySlice<Element> { elements[head...] }

  mutating func append(_ element: Element) { elements.append(element) }

  mutating func popFirst() -> Element? {
    guard head < elements.count else { return nil }
    let element = elements[head]
    head += 1
    if head == elements.count {
      removeAll()
    } else if head > RabbitFIFO.slackMaximum, head * 2 > elements.count {
      elements.removeSubrange(0..<head)
      head = 0
    }
    return element
  }

  mutating func removeAll() {
    elements.removeAll(keepingCapacity: true)
    head = 0
  }

  mutating func removeAll(where isGone: (Element) -> Bool) {
    elements.removeSubrange(0..<head)
    head = 0
    elements.removeAll(where: isGone)
  }

  /// Inserts an element before the first one for which `isBehind` is true.
  mutating func insert(_ element: Element, before isBehind: (Element) -> Bool) {
    let index = elements[head...].firstIndex(where: isBehind) ?? elements.count
    elements.insert(element, at: index)
  }
}
