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

  /// The user who has a socket open, and the socket's number.
  struct Owner: Equatable {
    var user: UInt32
    var inode: UInt64
  }

  /// `ESTABLISHED`. A socket in any other state may be closed already, and has no owner: the table then says root.
  private static let established = "01"

  /// The user of this process.
  package static var currentUser: UInt32 { geteuid() }

  /// The first PID namespace of a machine, in which all its processes are seen (`PROC_PID_INIT_INO`).
  private static let firstNamespace = "pid:[4026531836]"

  /// The user who opened the other end of a connection that this process accepted; nil: no process of this container or machine has it
  /// open, or its user is unknown here.
  /// - Parameters:
  ///   - client: the connection's remote address.
  ///   - server: its local address.
  package static func user(client: Place, server: Place) -> UInt32? {
    guard let owner = owner(client: client, server: server, read: { lines(of: $0) }) else { return nil }
    // Users of other namespaces are all this one.
    let unknown = lines(of: "/proc/sys/kernel/overflowuid")?.first.flatMap { UInt32($0) } ?? 65_534
    guard owner.user != unknown, isHere(owner, processes: "/proc") else { return nil }
    return owner.user
  }

  /// - Parameter read: the lines of a table now. Each is read once: a socket may be closed from one time to the next.
  static func owner(client: Place, server: Place, read: (String) -> [Substring]?) -> Owner? {
    for file in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
      if let table = read(file), let owner = owner(client: client, server: server, in: table) { return owner }
    }
    return nil
  }

  /// Looks in a table of the form of `/proc/net/tcp`.
  static func owner(client: Place, server: Place, in table: [Substring]) -> Owner? {
    for line in table {
      let words = line.split(separator: " ", omittingEmptySubsequences: true)
      guard words.count > 9, words[3] == established, words[9] != "0", let own = Place(words[1]), own == client,
        let other = Place(words[2]), other == server, let user = UInt32(words[7]), let inode = UInt64(words[9])
      else { continue }
      return Owner(user: user, inode: inode)
    }
    return nil
  }

  /// Whether a process of this container or machine has the socket. The containers of a pod share their network, and often a user: a sidecar
  /// that passes on what others send is in the table as if it were ours, and yet no process that is seen here.
  /// - Parameter processes: a folder of the form of `/proc`.
  static func isHere(_ owner: Owner, processes: String) -> Bool {
    if target(ofLink: "\(processes)/self/ns/pid") == firstNamespace { return true }
    let socket = "socket:[\(owner.inode)]"
    for process in names(in: processes) where UInt32(process) != nil {
      let folder = "\(processes)/\(process)/fd"
      // Another user's cannot be read, and is not needed.
      if names(in: folder).contains(where: { target(ofLink: "\(folder)/\($0)") == socket }) { return true }
    }
    return false
  }

  private static func names(in folder: String) -> [String] {
    guard let stream = unsafe opendir(folder) else { return [] }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafeBytes(of: entry.pointee.d_name) { unsafe Array($0.prefix { $0 != 0 }) }
      names.append(String(decoding: name, as: UTF8.self))
    }
    return names
  }

  private static func target(ofLink link: String) -> String? {
    var bytes = [CChar](repeating: 0, count: 64)
    let count = unsafe readlink(link, &bytes, bytes.count)
    return count < 0 ? nil : String(decoding: bytes.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
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
