import PushIO
import Testing

/// Commands as RESP arrays, whole and overwritten.
struct RedisCommandTests {
  private func text(_ command: RedisCommand) -> String { String(decoding: command.bytes, as: UTF8.self) }

  @Test func arguments() {
    #expect(text(RedisCommand(["PING"])) == "*1\r\n$4\r\nPING\r\n")
    var command = RedisCommand()
    command.begin(argumentCount: 12)
    command.append("")
    command.append([0, 13, 10])
    for number in [Int64.min, -1, 0, 9, 10, 99, 100, .max] { command.append(number) }
    command.append(String(repeating: "é", count: 600))
    let head = "*12\r\n$0\r\n\r\n$3\r\n\0\r\n\r\n$20\r\n-9223372036854775808\r\n$2\r\n-1\r\n$1\r\n0\r\n$1\r\n9\r\n"
    let tail = "$2\r\n10\r\n$2\r\n99\r\n$3\r\n100\r\n$19\r\n9223372036854775807\r\n$1200\r\n"
    #expect(text(command) == head + tail + String(repeating: "é", count: 600) + "\r\n")
  }

  @Test func usedAgain() {
    var command = RedisCommand()
    command.begin(argumentCount: 3)
    command.append("SET")
    command.append(encoded: Array("$1\r\nk\r\n".utf8))
    let count = command.bytes.count
    command.append("a")
    #expect(text(command) == "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\na\r\n")
    command.truncate(to: count)
    command.append("bc")
    #expect(text(command) == "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nbc\r\n")
  }
}
