/// A connection of the simulated network: two ends, 0 the client's, 1 the server's.
package final class SimulatedLine {
  package let id: SimulatedConnectionID
  /// The port that the client connected to.
  package let port: UInt16
  let ends = [SimulatedEnd(), SimulatedEnd()]
  /// No event is delivered; events are held back until the line is healed.
  package internal(set) var isSilent = false
  var held: [(side: Int, event: SimulatedNetwork.Event)] = []

  init(_ id: SimulatedConnectionID, port: UInt16) {
    self.id = id
    self.port = port
  }

  /// Both ends are finished: no more events.
  var isOver: Bool { ends[0].isOver && ends[1].isOver }
}

/// One end of a connection, as its owner sees it.
final class SimulatedEnd {
  enum Owner {
    /// Not accepted yet, or closed.
    case unowned
    case socket(SimulatedKernel, Int32)
    case peer(any SimulatedPeer)
  }

  var owner = Owner.unowned
  /// The arrival time of the last event on its way to this end.
  var lastArrival: Int64 = 0
  /// Bytes sent to this end and not read yet.
  var underWay = 0
  /// Bytes that were sent to this end, and those of them that arrived, since the connection was opened.
  var sentCount = 0
  var arrivedCount = 0
  private(set) var isConnected = false
  /// This end sends nothing more.
  var hasClosed = false
  private(set) var hasReceivedEnd = false
  var isBroken = false
  /// The owner closed it: no reader is left.
  var isGone = false
  private var inbox: [UInt8] = []
  private var readCount = 0
  /// The error number that the next system call returns.
  private var error: Int32 = 0

  var isOver: Bool { isBroken || (hasClosed && hasReceivedEnd) }
  var unreadCount: Int { inbox.count - readCount }

  func connected() {
    isConnected = true
  }

  func received(_ bytes: [UInt8]) {
    inbox.append(contentsOf: bytes)
  }

  func receivedEnd() {
    hasReceivedEnd = true
  }

  func broken(_ code: Int32) {
    isBroken = true
    error = code
  }

  /// The pending error, reported once; 0: none.
  func takeError() -> Int32 {
    defer { error = 0 }
    return error
  }

  /// Reads like a socket: returns a count, 0 at the end, or a negated error.
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
    return hasReceivedEnd || isBroken ? 0 : -Int(SimulatedErrors.again)
  }

}

/// Linux error numbers that the simulated kernel returns.
enum SimulatedErrors {
  static let again: Int32 = 11
  static let badDescriptor: Int32 = 9
  static let brokenPipe: Int32 = 32
  static let inProgress: Int32 = 115
  static let inUse: Int32 = 98
  static let refused: Int32 = 111
  static let reset: Int32 = 104
}
