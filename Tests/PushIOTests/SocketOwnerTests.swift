import Foundation
import TestSupport
import Testing

@testable import PushIO

/// Whose process a local connection comes from.
@Suite struct SocketOwnerTests {
  private static let head =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"

  private func user(_ lines: [String], client: String = "127.0.0.1", port: UInt16 = 40_000) throws -> UInt32? {
    let table = [Self.head] + lines
    return SocketOwner.owner(
      client: try #require(SocketOwner.Place(client, port: port)),
      server: try #require(SocketOwner.Place("127.0.0.1", port: 8080)), in: table.map { $0[...] })?.user
  }

  private func line(_ local: String, _ remote: String, state: String = "01", user: Int = 1000, inode: Int = 5) -> String
  {
    "   0: \(local) \(remote) \(state) 00000000:00000000 00:00000000 00000000  \(user)        0 \(inode) 1 0 20 4 30 10 -1"
  }

  @Test func theOtherEndOfTheConnection_hasItsUser() throws {
    // 127.0.0.1:40000 to 127.0.0.1:8080, and the same connection from the other end.
    let (client, server) = ("0100007F:9C40", "0100007F:1F90")
    #expect(try user([line(server, client, user: 0), line(client, server, user: 65_534)]) == 65_534)
    #expect(try user([line(client, server, user: 33)], port: 40_001) == nil, "another port")
    #expect(try user([line(client, "0100007F:1F91")]) == nil, "a connection to another port")
    #expect(try user([line("0200007F:9C40", server)]) == nil, "from another address")
    #expect(try user([]) == nil)
  }

  /// The kernel's tables change while they are read.
  @Test func aSocketThatIsClosedMeanwhile_isFoundOrNot() throws {
    let (client, server) = (
      try #require(SocketOwner.Place("127.0.0.1", port: 40_000)),
      try #require(SocketOwner.Place("127.0.0.1", port: 8080))
    )
    var readings = 0
    let found = SocketOwner.owner(client: client, server: server) { _ in
      readings += 1
      return readings == 1 ? [line("0100007F:9C40", "0100007F:1F90", user: 33)[...]] : []
    }
    #expect(found == SocketOwner.Owner(user: 33, inode: 5) && readings == 1)
    #expect(SocketOwner.owner(client: client, server: server) { _ in nil } == nil)
  }

  /// The containers of a pod share their network and often a user. A process of another container is not seen among ours.
  @Test func aSocketOfAnotherContainer_isNotOurs() throws {
    let files = try TemporaryFolder("processes")
    let manager = FileManager.default
    func link(_ path: String, _ target: String) throws {
      let path = files.path(path)
      try manager.createDirectory(
        at: URL(filePath: path).deletingLastPathComponent(), withIntermediateDirectories: true)
      try? manager.removeItem(atPath: path)
      try manager.createSymbolicLink(atPath: path, withDestinationPath: target)
    }
    func isHere(_ inode: UInt64) -> Bool {
      SocketOwner.isHere(SocketOwner.Owner(user: 10_001, inode: inode), processes: files.path("."))
    }
    try link("self/ns/pid", "pid:[4026532198]")
    try link("1/fd/0", "/dev/null")
    try link("1/fd/7", "socket:[41]")
    try link("23/fd/3", "socket:[42]")
    // No process has it there.
    try link("net/fd/3", "socket:[43]")
    #expect(isHere(41) && isHere(42))
    #expect(!isHere(4) && !isHere(43) && !isHere(421))
    try manager.removeItem(atPath: files.path("23"))
    #expect(!isHere(42))
    // Outside of all containers, every process is this machine's.
    try link("self/ns/pid", "pid:[4026531836]")
    #expect(isHere(42))
    try manager.removeItem(atPath: files.path("self"))
    #expect(!isHere(42), "nothing is known of this process")
  }

  /// After `close`, the kernel's table has root as the user of what is still to be sent.
  @Test(arguments: ["04", "05", "06", "08", "0A"]) func aClosedSocket_hasNoUser(state: String) throws {
    #expect(try user([line("0100007F:9C40", "0100007F:1F90", state: state, user: 0)]) == nil)
    #expect(try user([line("0100007F:9C40", "0100007F:1F90", user: 0, inode: 0)]) == nil, "an orphan")
  }

  /// A server that listens for IPv6 sees an IPv4 client as a mapped address, and a client may write it so too.
  @Test func mappedAddresses_areTheSamePlace() throws {
    let mapped = line("0000000000000000FFFF00000100007F:9C40", "0000000000000000FFFF00000100007F:1F90", user: 7)
    #expect(try user([mapped]) == 7)
    #expect(try user([line("0100007F:9C40", "0100007F:1F90", user: 8)], client: "::ffff:127.0.0.1") == 8)
    #expect(SocketOwner.Place("fe80::1%eth0", port: 1) == SocketOwner.Place("fe80::1", port: 1))
    #expect(SocketOwner.Place("unix", port: 1) == nil && SocketOwner.Place("", port: 1) == nil)
  }
}
