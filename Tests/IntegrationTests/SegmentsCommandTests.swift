import Foundation
import PushCore
import PushStores
import TestSupport
import Testing

/// `herald segments`, as a process over a real Redis.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct SegmentsCommandTests {
  private struct Commands {
    let folder: TemporaryFolder
    let prefix: String

    init(_ name: String) throws {
      folder = try TemporaryFolder("segments")
      prefix = "segments-command-\(name):"
      let redis = try RedisServer.shared()
      try folder.write("redis: {url: \"\(redis.url)\", prefix: \"\(prefix)\"}\n", to: "herald.yaml")
    }

    func run(_ arguments: [String], input: String? = nil) throws -> ChildProcess.Output {
      try ChildProcess.run(
        [try BuiltProgram.path("herald"), "segments"] + arguments
          + ["--app", "com.example.app", "--environment", "sandbox", "--config", folder.path("herald.yaml")],
        environment: ChildProcess.inheritedEnvironment(without: ["HERALD_"]), input: input, timeoutMilliseconds: 60_000)
    }

    func output(_ arguments: [String], input: String? = nil) throws -> String {
      let result = try run(arguments, input: input)
      #expect(result.status == 0, "\(arguments): \(result.errors)")
      return result.output
    }
  }

  @Test func segmentsArePutShownListedCountedAndDeleted() throws {
    let commands = try Commands("all")
    let bench = try SegmentBench(url: RedisServer.shared().url, prefix: commands.prefix)
    try bench.put(.everyone, (0..<1000).map { UInt32($0 * 100) })
    try bench.put(.tagText("plan", "gold"), (0..<500).map { UInt32($0 * 200) })
    try bench.put(.hasToken, [200, 300, 99_800])
    try bench.write(bench.keys.next, Array("99901".utf8))

    let gold = #"{"tag":"plan","is":"gold"}"#
    #expect(try commands.output(["put", "gold", "--filter", gold]) == "segment gold is stored\n")
    let both = #"{"all": [{"segment": "gold"}, {"has": "token"}]}"#
    let stored = try commands.output(["put", "gold-token", "--filter", "-", "--json"], input: both)
    let row = try #require(try JSONSerialization.jsonObject(with: Data(stored.utf8)) as? [String: Any])
    #expect(row["code"] as? String == "gold-token" && (row["put_at"] as? Int64 ?? 0) > 1_700_000_000_000)
    #expect(row["filter"] as? [String: [[String: String]]] == ["all": [["segment": "gold"], ["has": "token"]]])
    let text = try commands.output(["put", "others", "--filter", #"T("plan", NOTEQ, "gold")"#])
    #expect(text == "segment others is stored\n")
    #expect(try commands.output(["show", "others"]) == "{\"not\":\(gold)}\n")

    #expect(try commands.output(["count", "gold"]) == "500\n")
    #expect(try commands.output(["count", "others", "--json"]) == "{\"devices\":500}\n")
    #expect(try commands.output(["count", "--filter", both]) == "2\n")

    let list = try commands.output(["list"]).split(separator: "\n")
    #expect(list.count == 4 && list[0].hasPrefix("CODE") && list[1].hasPrefix("gold "), "\(list)")
    #expect(try commands.output(["list", "--json"]).split(separator: "\n").count == 3)

    let refused = try commands.run(["delete", "gold"])
    #expect(refused.status == 1 && refused.errors.contains("segment gold is not deleted: gold-token names it"))
    #expect(try commands.output(["delete", "gold-token", "--json"]) == #"{"code":"gold-token","deleted":true}"# + "\n")
    #expect(try commands.output(["delete", "gold"]) == "segment gold is deleted\n")
    let gone = try commands.run(["show", "gold"])
    #expect(gone.status == 1 && gone.errors.contains("there is no segment gold of com.example.app in sandbox"))
  }

  @Test func aSampleShowsDevices() throws {
    let commands = try Commands("sample")
    let bench = try SegmentBench(url: RedisServer.shared().url, prefix: commands.prefix)
    try bench.register(
      (0..<30).map { number in
        var device = DeviceRegistration(device: "hwid-\(number)")
        device.user = .set("u-1")
        device.tags = [DeviceRegistration.Tag(name: "level", change: .set(.number(Double(number))))]
        return (registration: device, at: 1_796_000_000_000)
      })
    let high = ["sample", "--filter", #"{"tag":"level","at_least":28}"#]
    let sample = try commands.run(high)
    #expect(sample.status == 0 && sample.errors.contains("2 of 2 devices"), "\(sample.errors)")
    let lines = sample.output.split(separator: "\n")
    #expect(lines.count == 3 && lines[0].hasPrefix("DEVICE") && lines.dropFirst().allSatisfy { $0.contains("u-1") })
    let rows = try commands.output(high + ["--json"]).split(separator: "\n")
    #expect(rows.contains(#"{"device":"hwid-29","token":false,"user":"u-1"}"#) && rows.count == 2, "\(rows)")
    #expect(
      try commands.output(["sample", "--filter", #"{"tag":"level","exists":true}"#, "--limit", "7", "--json"])
        .split(separator: "\n").count == 7)
  }

  @Test func whatIsWrongIsSaidWithItsPlace() throws {
    let commands = try Commands("wrong")
    let cases: [(arguments: [String], words: String)] = [
      (
        ["put", "a", "--filter", #"{"any":[{"has":"token"},{"tga":"p","is":1}]}"#],
        "/any/1/tga is not a key of a filter"
      ),
      (["put", "a", "--filter", #"T("p", EQL, 1)"#], "the filter, at byte 7, EQL is no operator; did you mean EQ?"),
      (["put", "a", "--filter", ""], "the filter is empty"),
      (["put", "a b", "--filter", #"{"has":"token"}"#], "the code must be 1 to 64 letters"),
      (
        ["put", "a", "--filter", #"{"not":{"all":[{"has":"token"},{"segment":"b"}]}}"#],
        "/not/all/1/segment names the segment b, which does not exist"
      ),
      (["put", "a", "--filter", #"{"segment":"a"}"#], "/segment leads back to the segment a (a → a)"),
      (["count"], "give a segment's code, or a --filter"),
      (["count", "a", "--filter", #"{"has":"token"}"#], "not both"),
      (["count", "--filter", #"{"segment":"b"}"#], "/segment names the segment b, which does not exist"),
      (["sample", "a", "--limit", "0"], "--limit must be from 1 to 1000, not 0"),
    ]
    for (arguments, words) in cases {
      let result = try commands.run(arguments)
      #expect(result.status == 64 && result.errors.contains(words), "\(arguments): \(result.status) \(result.errors)")
      #expect(result.output.isEmpty)
    }
    let unknown = try commands.run(["count", "nowhere"])
    #expect(unknown.status == 1 && unknown.errors.contains("there is no segment nowhere of "))
    let long = String(repeating: " ", count: 70_000)
    let refused = try commands.run(["put", "a", "--filter", "-"], input: long)
    #expect(refused.status == 64 && refused.errors.contains("must be at most 65536 bytes, not 65537"))
    #expect(try commands.output(["list", "--json"]) == "")
  }
}
