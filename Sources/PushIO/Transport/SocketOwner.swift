import Glibc
import PushCore

/// Whose process a connection from this machine comes from, as the kernel's tables of TCP sockets tell.
package enum SocketOwner {
  /// An address and port, as one comparable value: IPv4 as IPv6 (`::ffff:127.0.0.1`).
  package struct Place: Equatable, Sendable {
    let address: [UInt8]
    let port: UInt16

    /// nil: not an IP address.
    package init?(_ address: String, port: UInt16) {
      let text = String(address.prefix { $0 != "%" })
      var four = in_addr()
      var six = in6_addr()
      if unsafe inet_pton(AF_INET, text, &four) == 1 {
        self.address = unsafe Place.mapped + withUnsafeBytes(of: four) { unsafe Array($0) }
      } else if unsafe inet_pton(AF_INET6, text, &six) == 1 {
        self.address = unsafe withUnsafeBytes(of: six) { unsafe Array($0) }
      } else {
        return nil
      }
      self.port = port
    }

    /// As in the kernel's table: `0100007F:1F90`, each 32-bit word of the address in this machine's byte order.
    init?(_ field: Substring) {
      let parts = field.split(separator: ":")
      guard parts.count == 2, parts[0].utf8.count == 8 || parts[0].utf8.count == 32,
        let port = UInt16(parts[1], radix: 16)
      else { return nil }
      var bytes: [UInt8] = parts[0].utf8.count == 8 ? Place.mapped : []
      var rest = parts[0]
      while !rest.isEmpty {
        guard let word = UInt32(rest.prefix(8), radix: 16) else { return nil }
        unsafe withUnsafeBytes(of: word) { unsafe bytes.append(contentsOf: $0) }
        rest = rest.dropFirst(8)
      }
      address = bytes
      self.port = port
    }

    private static let mapped: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]
  }

  /// `ESTABLISHED`. A socket in any other state may be closed already, and has no owner: the table then says root.
  private static let established = "01"

  /// The user of this process.
  package static var currentUser: UInt32 { geteuid() }

  /// The user who opened the other end of a connection that this process accepted; nil: no process of this network namespace has it open, or
  /// its user is unknown here.
  /// - Parameters:
  ///   - client: the connection's remote address.
  ///   - server: its local address.
  package static func user(client: Place, server: Place) -> UInt32? {
    let found = user(client: client, server: server) { lines(of: $0) }
    // Users of other namespaces are all this one.
    let unknown = lines(of: "/proc/sys/kernel/overflowuid")?.first.flatMap { UInt32($0) } ?? 65_534
    return found == unknown ? nil : found
  }

  /// - Parameter read: the lines of a table now. Each is read once: a socket may be closed from one time to the next.
  static func user(client: Place, server: Place, read: (String) -> [Substring]?) -> UInt32? {
    for file in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
      if let table = read(file), let user = user(client: client, server: server, in: table) { return user }
    }
    return nil
  }

  /// Looks in a table of the form of `/proc/net/tcp`.
  package static func user(client: Place, server: Place, in table: [Substring]) -> UInt32? {
    for line in table {
      let words = line.split(separator: " ", omittingEmptySubsequences: true)
      guard words.count > 9, words[3] == established, words[9] != "0", let own = Place(words[1]), own == client,
        let other = Place(words[2]), other == server
      else { continue }
      return UInt32(words[7])
    }
    return nil
  }

  private static func lines(of file: String) -> [Substring]? {
    guard let stream = unsafe fopen(file, "r") else { return nil }
    defer { unsafe fclose(stream) }
    var bytes: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 64 * 1024)
    while true {
      let count = unsafe fread(&part, 1, part.count, stream)
      if count == 0 { break }
      bytes += part[..<count]
    }
    return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { $0 }
  }
}
