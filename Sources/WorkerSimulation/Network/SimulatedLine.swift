/// A connection of the simulated network: two ends, of which the first one asked for it.
package final class SimulatedLine {
  package let id: SimulatedConnectionID
  /// Where it was asked for.
  package let port: UInt16
  let ends = [SimulatedEnd(), SimulatedEnd()]
  /// Nothing arrives; what would have waits here.
  package internal(set) var isSilent = false
  var held: [(side: Int, event: SimulatedNetwork.Event)] = []

  init(_ id: SimulatedConnectionID, port: UInt16) {
    self.id = id
    self.port = port
  }

  /// Nothing happens on it any more.
  var isOver: Bool { ends[0].isOver && ends[1].isOver }
}

/// One side of a connection, as its owner sees it.
final class SimulatedEnd {
  enum Owner {
    /// Not accepted yet, or closed.
    case nobody
    case socket(SimulatedKernel, Int32)
    case peer(any SimulatedPeer)
  }

  var owner = Owner.nobody
  /// When the last thing arrives that is on its way to it.
  var lastArrival: Int64 = 0
  /// Bytes that were sent to it and were not read.
  var underWay = 0
  private(set) var isConnected = false
  /// It said that it sends nothing more.
  var hasClosed = false
  private(set) var hasHeardEnd = false
  var isBroken = false
  /// Its owner closed it: nobody reads any more.
  var isGone = false
  private var inbox: [UInt8] = []
  private var readCount = 0
  /// What the next system call says.
  private var error: Int32 = 0

  var isOver: Bool { isBroken || (hasClosed && hasHeardEnd) }
  var unreadCount: Int { inbox.count - readCount }

  func connected() {
    isConnected = true
  }

  func received(_ bytes: [UInt8]) {
    inbox.append(contentsOf: bytes)
  }

  func heardEnd() {
    hasHeardEnd = true
  }

  func broken(_ code: Int32) {
    isBroken = true
    error = code
  }

  /// The error that is to be told, once.
  func takeError() -> Int32 {
    defer { error = 0 }
    return error
  }

  /// As a socket is read: a count, 0 at the end, or a negated error.
  func read(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    if unreadCount > 0 {
      let count = min(unreadCount, buffer.count)
      unsafe buffer.copyBytes(from: inbox[readCount..<readCount + count])
      readCount += count
      underWay -= count
      if readCount == inbox.count {
        inbox.removeAll(keepingCapacity: true)
        readCount = 0
      }
      return count
    }
    if error != 0 { return -Int(takeError()) }
    return hasHeardEnd || isBroken ? 0 : -Int(SimulatedErrors.again)
  }

}

/// Numbers of errors that the simulated kernel gives, as Linux has them.
enum SimulatedErrors {
  static let again: Int32 = 11
  static let badDescriptor: Int32 = 9
  static let brokenPipe: Int32 = 32
  static let inProgress: Int32 = 115
  static let inUse: Int32 = 98
  static let refused: Int32 = 111
  static let reset: Int32 = 104
}
