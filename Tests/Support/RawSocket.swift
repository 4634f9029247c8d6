/// A blocking socket on 127.0.0.1 whose reads end after a while.
import Glibc

package final class RawSocket {
  private let descriptor: Int32
  /// The other side closed or reset it.
  package private(set) var isAtEnd = false

  /// - Parameter receiveBytes: of the kernel's buffer; nil: as many as the kernel likes, which may be megabytes.
  package init(port: UInt16, receiveBytes: Int32? = nil) throws(TestFailure) {
    guard let descriptor = LoopbackPort.connection(to: port, receiveBytes: receiveBytes) else {
      throw TestFailure("cannot connect to port \(port) of 127.0.0.1")
    }
    self.descriptor = descriptor
  }

  deinit { Glibc.close(descriptor) }

  /// Drops bytes that cannot be sent: the other side is gone.
  package func send(_ bytes: [UInt8]) {
    var start = 0
    while start < bytes.count {
      let sent = unsafe bytes.withUnsafeBytes { buffer in
        unsafe Glibc.send(descriptor, buffer.baseAddress! + start, buffer.count - start, Int32(MSG_NOSIGNAL))
      }
      guard sent > 0 else { return }
      start += sent
    }
  }

  /// Sends what the kernel takes without a wait. Returns the count; 0: nothing now.
  package func sendNow(_ bytes: [UInt8]) -> Int {
    let sent = unsafe bytes.withUnsafeBytes { buffer in
      unsafe Glibc.send(descriptor, buffer.baseAddress!, buffer.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
    }
    return max(0, sent)
  }

  /// Ends this side's half of the connection.
  package func endSending() { _ = shutdown(descriptor, Int32(SHUT_WR)) }

  /// The available bytes, after a wait if necessary; empty after that time, and at the end.
  package func receive(milliseconds: Int32) -> [UInt8] {
    guard !isAtEnd else { return [] }
    var poll = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    guard unsafe Glibc.poll(&poll, 1, milliseconds) > 0 else { return [] }
    var bytes = [UInt8](repeating: 0, count: 65_536)
    let count = unsafe recv(descriptor, &bytes, bytes.count, 0)
    guard count > 0 else {
      isAtEnd = true
      return []
    }
    return Array(bytes[..<count])
  }
}
