import CLinux
import Glibc
import PushCore

/// The address of a socket: IPv4, IPv6 or a unix path, in the kernel's format.
@safe
package struct SocketAddress: Sendable, CustomStringConvertible {
  private var storage = sockaddr_storage()
  private var byteCount: socklen_t = 0

  /// A numeric address (`127.0.0.1`, `::1`); nil if the text is a name.
  package init?(numericHost host: String, port: UInt16) {
    var four = sockaddr_in()
    if unsafe inet_pton(AF_INET, host, &four.sin_addr) == 1 {
      four.sin_family = sa_family_t(AF_INET)
      four.sin_port = port.bigEndian
      store(four)
      return
    }
    var six = sockaddr_in6()
    if unsafe inet_pton(AF_INET6, host, &six.sin6_addr) == 1 {
      six.sin6_family = sa_family_t(AF_INET6)
      six.sin6_port = port.bigEndian
      store(six)
      return
    }
    return nil
  }

  /// A unix socket's path; nil if it is empty or too long for the system (107 bytes).
  package init?(unixPath: String) {
    var address = sockaddr_un()
    let bytes = Array(unixPath.utf8)
    guard !bytes.isEmpty, bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
    address.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { path in unsafe path.copyBytes(from: bytes) }
    store(address)
  }

  /// An address from `getaddrinfo` or `accept`; nil for another family. `port` replaces the address's own.
  init?(copying address: UnsafePointer<sockaddr>?, port: UInt16) {
    guard let address = unsafe address else { return nil }
    switch unsafe Int32(address.pointee.sa_family) {
    case AF_INET:
      var four = unsafe UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in.self)
      four.sin_port = port.bigEndian
      store(four)
    case AF_INET6:
      var six = unsafe UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in6.self)
      six.sin6_port = port.bigEndian
      store(six)
    default:
      return nil
    }
  }

  /// The local or the remote address of a socket.
  init?(of fileDescriptor: Int32, isLocal: Bool) {
    byteCount = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let code = unsafe withUnsafeMutablePointer(to: &storage) { storage in
      let address = unsafe UnsafeMutableRawPointer(storage).assumingMemoryBound(to: sockaddr.self)
      return unsafe isLocal
        ? getsockname(fileDescriptor, address, &byteCount) : getpeername(fileDescriptor, address, &byteCount)
    }
    if code != 0 { return nil }
  }

  package var isIPv6: Bool { family == AF_INET6 }
  package var isUnix: Bool { family == AF_UNIX }
  var family: Int32 { Int32(storage.ss_family) }

  /// 0 for a unix path.
  package var port: UInt16 {
    if isUnix { return 0 }
    // Both families have the port in the two bytes after the family.
    return unsafe withUnsafeBytes(of: storage) { UInt16(bigEndian: unsafe $0.load(fromByteOffset: 2, as: UInt16.self)) }
  }

  package var description: String {
    var text = [CChar](repeating: 0, count: 64)
    let isWritten = unsafe withUnsafeBytes(of: storage) { bytes -> Bool in
      let offset = isIPv6 ? 8 : 4
      guard !isUnix, let base = bytes.baseAddress else { return false }
      return unsafe inet_ntop(family, base + offset, &text, socklen_t(text.count)) != nil
    }
    guard isWritten else { return "unix socket" }
    let host = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return HostPort.text(host, port)
  }

  /// The address for a system call. The pointer must not outlive the call.
  func withAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    unsafe withUnsafePointer(to: storage) { storage in
      unsafe body(UnsafeRawPointer(storage).assumingMemoryBound(to: sockaddr.self), byteCount)
    }
  }

  private mutating func store<Address>(_ address: Address) {
    unsafe withUnsafeMutableBytes(of: &storage) { bytes in
      unsafe bytes.storeBytes(of: address, as: Address.self)
    }
    byteCount = socklen_t(MemoryLayout<Address>.size)
  }
}
