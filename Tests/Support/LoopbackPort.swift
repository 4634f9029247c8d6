/// Free ports on 127.0.0.1 for servers that must know their port before they start, and keep it over a restart.
import Glibc

package enum LoopbackPort {
  /// A port without a listener, reserved for this process until it ends. It is below the range from which the system
  /// picks ports of outgoing connections: there, a client that keeps dialling a stopped server can be connected to
  /// itself. Scripts without reservations use the ports from 28000.
  package static func free() throws(TestFailure) -> UInt16 {
    for _ in 0..<200 {
      let port = UInt16.random(in: 12_000..<28_000)
      if reserve(port), canListen(on: port) { return port }
    }
    throw TestFailure("found no free port on 127.0.0.1 between 12000 and 28000")
  }

  /// Reserves a port among all tests of this machine: another process could take it before its server listens. The
  /// reservation is an abstract Unix socket, which needs no file and ends with the process; scripts/chaos has the same.
  package static func reserve(_ port: UInt16) -> Bool {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return false }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    // The first byte of an abstract name is zero.
    let name = [0] + Array("herald-port-\(port)".utf8)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: name) }
    let length = socklen_t(MemoryLayout<sa_family_t>.size + name.count)
    let isReserved = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe bind(descriptor, $0, length) == 0 }
    }
    if !isReserved { close(descriptor) }
    return isReserved
  }

  /// Something accepts connections there.
  package static func isOpen(_ port: UInt16) -> Bool {
    withConnection(to: port, timeoutMilliseconds: 1_000) { _ in true } ?? false
  }

  /// Sends bytes to a port and returns the first bytes of the answer; nil if none came in time.
  package static func ask(_ port: UInt16, _ question: [UInt8], timeoutMilliseconds: Int = 1_000) -> [UInt8]? {
    withConnection(to: port, timeoutMilliseconds: timeoutMilliseconds) { descriptor in
      guard unsafe send(descriptor, question, question.count, Int32(MSG_NOSIGNAL)) == question.count else {
        return nil
      }
      var answer = [UInt8](repeating: 0, count: 512)
      let count = unsafe recv(descriptor, &answer, answer.count, 0)
      return count > 0 ? Array(answer[..<count]) : nil
    } ?? nil
  }

  private static func canListen(on port: UInt16) -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    return unsafe withAddress(port) { address, length in unsafe bind(descriptor, address, length) } == 0
  }

  static func withConnection<Result>(
    to port: UInt16, timeoutMilliseconds: Int, _ body: (Int32) -> Result
  ) -> Result? {
    guard let descriptor = connection(to: port, timeoutMilliseconds: timeoutMilliseconds) else { return nil }
    defer { close(descriptor) }
    return body(descriptor)
  }

  /// A connected socket, which the caller closes; nil: nothing listens.
  /// - Parameters:
  ///   - timeoutMilliseconds: of each read and write; nil: none.
  ///   - receiveBytes: of the kernel's buffer; nil: as many as the kernel likes.
  static func connection(to port: UInt16, timeoutMilliseconds: Int? = nil, receiveBytes: Int32? = nil) -> Int32? {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return nil }
    if let timeoutMilliseconds {
      var limit = timeval(tv_sec: timeoutMilliseconds / 1000, tv_usec: timeoutMilliseconds % 1000 * 1000)
      let size = socklen_t(MemoryLayout<timeval>.size)
      unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
      unsafe setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
    }
    if var receiveBytes {
      unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBytes, socklen_t(MemoryLayout<Int32>.size))
    }
    var isOn: Int32 = 1
    unsafe setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &isOn, socklen_t(MemoryLayout<Int32>.size))
    guard unsafe withAddress(port, { address, length in unsafe connect(descriptor, address, length) }) == 0 else {
      close(descriptor)
      return nil
    }
    return descriptor
  }

  private static func withAddress(_ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    return unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
        unsafe body(generic, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
  }
}
