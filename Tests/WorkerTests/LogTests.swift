import Foundation
import Logging
import PushCore
import PushLane
import PushSettings
import PushWorker
import Synchronization
import Testing

/// The lines of the log and their rate limits.
@Suite struct LogTests {
  /// Collects what a log writes.
  private final class Lines: Sendable {
    private let lines = Mutex<[String]>([])
    var all: [String] { lines.withLock { $0 } }
    func append(_ line: String) { lines.withLock { $0.append(line) } }
  }

  @Test func jsonLines() throws {
    let lines = Lines()
    let log = Log(level: .info, format: .json) { lines.append($0) }
    var logger = log.logger("rabbitmq")
    logger[metadataKey: "host"] = "a\"b"
    logger.notice("connected\nagain", metadata: ["port": "\(5672)", "lanes": ["1", "2"], "level": "x"])
    let line = try #require(lines.all.first)
    #expect(line.hasSuffix("}\n") && line.dropLast().allSatisfy { !$0.isNewline })
    let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    #expect(object["level"] as? String == "notice")
    #expect(object["label"] as? String == "rabbitmq")
    #expect(object["message"] as? String == "connected\nagain")
    #expect(object["host"] as? String == "a\"b")
    #expect(object["lanes"] as? [String] == ["1", "2"])
    #expect(object["metadata_level"] as? String == "x")
    #expect((object["time"] as? String)?.count == "2026-01-01T00:00:00.000Z".count)
  }

  @Test func valuesAreValues() throws {
    let metadata: Logger.Metadata = [
      "credentials": ["main", "back\"up"], "lanes": .stringConvertible(UInt64.max), "share": .stringConvertible(0.5),
      "tls": .stringConvertible(true), "pool": ["streams": .stringConvertible(3), "peers": ["a", "b c"]],
    ]
    let lines = Lines()
    Log(level: .info, format: .json) { lines.append($0) }.logger("herald").info("started", metadata: metadata)
    Log(level: .info, format: .text) { lines.append($0) }.logger("herald").info("started", metadata: metadata)
    #expect(
      lines.all[0].hasSuffix(
        #","credentials":["main","back\"up"],"lanes":18446744073709551615,"pool":{"peers":["a","b c"],"streams":3},"#
          + #""share":0.5,"tls":true}"# + "\n"), "\(lines.all[0])")
    _ = try JSONSerialization.jsonObject(with: Data(lines.all[0].utf8))
    #expect(
      lines.all[1].hasSuffix(
        #" credentials=main,back"up lanes=18446744073709551615 pool="peers=a,b c,streams=3" share=0.5 tls=true"# + "\n"),
      "\(lines.all[1])")
  }

  @Test func textLinesStaySingle() throws {
    let lines = Lines()
    let log = Log(level: .info, format: .text) { lines.append($0) }
    log.logger("apns").warning("lost\u{1b}[31m\nbad", metadata: ["b": "2", "a": "1 2"])
    let line = try #require(lines.all.first)
    #expect(line.hasSuffix(" warning apns: lost [31m bad a=\"1 2\" b=2\n"))
  }

  @Test func levelsChangeForLoggersMadeBefore() {
    let lines = Lines()
    let log = Log(level: .warning, format: .text) { lines.append($0) }
    let logger = log.logger("a")
    logger.info("quiet")
    log.level = .debug
    logger.debug("loud")
    #expect(lines.all.count == 1)
  }

  @Test func linesOfManyThreadsDoNotMix() async {
    let lines = Lines()
    let log = Log(level: .info, format: .text) { lines.append($0) }
    await withTaskGroup(of: Void.self) { group in
      for task in 0..<8 {
        group.addTask { for line in 0..<100 { log.logger("t").info("\(task).\(line)") } }
      }
    }
    #expect(lines.all.count == 800)
  }

  @Test func aStateIsReportedOncePerChange() {
    let notices = LogNotices(burst: 3)
    func at(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }
    #expect(notices.report("redis", "up", isInitial: true, now: at(0)) == nil)
    #expect(notices.report("redis", "up", now: at(1)) == nil)
    #expect(notices.report("redis", "down", now: at(2))?.state == "down")
    #expect(notices.report("redis", "down", now: at(3)) == nil)
    #expect(notices.report("redis", "up", now: at(4))?.suppressed == 0)
    // Another subject has its own count.
    #expect(notices.report("rabbitmq", "down", now: at(4))?.subject == "rabbitmq")
  }

  @Test func aFlappingStateIsReportedWhereItStandsInTheEnd() {
    let notices = LogNotices(burst: 2)
    func at(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }
    var reported = 0
    for second in 0..<20 {
      if notices.report("redis", second % 2 == 0 ? "down" : "up", now: at(Int64(second))) != nil { reported += 1 }
    }
    #expect(reported == 2)
    #expect(notices.report("redis", "down", now: at(21)) == nil)
    #expect(notices.due(now: at(30)).isEmpty)
    let due = notices.due(now: at(61))
    #expect(due.map(\.state) == ["down"])
    #expect(due.first?.suppressed == 18)
    #expect(notices.due(now: at(62)).isEmpty)
  }
}
