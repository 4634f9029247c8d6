/// Randomly damaged jobs: none traps the parser, and its results are right.
///
/// `HERALD_FUZZ_ROUNDS=1000000 HERALD_FUZZ_SEED=7` runs more rounds, or another seed. A failure names its seed and round; the
/// same seed gives the same jobs.
import Foundation
import PushCore
import TestSupport
import Testing

@Suite struct JobFuzzTests {
  static let originals: [[UInt8]] =
    [
      exampleJob,
      job([("to", "{\"tokens\": [\"AABBCCDD\", \"00112233\"]}"), ("id", "\"\\u00e9\\ud83d\\ude00\"")]),
      job("liveactivity", payload: PayloadExamples.start(",\"relevance-score\":0.5")),
      job(
        "alert",
        payload:
          "{\"aps\":{\"alert\":{\"title\":\"日本\",\"loc-key\":\"K\",\"loc-args\":[\"a\"]},\"badge\":1},\"x\":[1,{\"y\":null}]}"
      ),
      job(
        "liveactivity", payload: "{\"aps\":{\"timestamp\":1,\"event\":\"end\"}}", [("to", "{\"channel\":\"a\\/b=\"}")]),
    ].map { Array($0.utf8) } + PayloadExamples.taken.map { Array(job($0.0, payload: $0.1).utf8) }

  /// Bytes that parsers treat specially.
  static let dictionary: [[UInt8]] =
    [
      "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", "\\u", "\\ud800", "null", "true", "1e999", "\u{0}",
      "é", "😀",
      "\"id\":", "\"aps\":", "\"to\":", "{\"token\":\"", "        ",
    ].map { Array($0.utf8) } + [[0xFF], [0xC3], [0xF0, 0x9F], [0x80]]

  static func mutated(_ random: inout SeededRandom) -> [UInt8] {
    var bytes = originals.randomElement(using: &random) ?? []
    for _ in 0...Int.random(in: 0..<3, using: &random) {
      let place = Int.random(in: 0..<max(1, bytes.count), using: &random)
      switch Int.random(in: 0..<6, using: &random) {
      case 0 where place < bytes.count: bytes[place] = UInt8.random(in: 0...255, using: &random)
      case 1 where place < bytes.count: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
      case 2: bytes.removeLast(min(bytes.count, Int.random(in: 0..<60, using: &random)))
      case 3: bytes.insert(contentsOf: dictionary.randomElement(using: &random) ?? [], at: min(place, bytes.count))
      case 4: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 0..<12, using: &random)))
      default:
        let end = min(bytes.count, place + Int.random(in: 0..<40, using: &random))
        bytes.insert(contentsOf: Array(bytes[min(place, end)..<end]), at: end)
      }
    }
    return bytes
  }

  /// A number from the environment.
  private static func setting(_ name: String) -> UInt64? {
    ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) }
  }

  @Test func survivesDamage() {
    let seed = JobFuzzTests.setting("HERALD_FUZZ_SEED") ?? 0x4865_7261_6C64
    let rounds = Int(JobFuzzTests.setting("HERALD_FUZZ_ROUNDS") ?? 100_000)
    var random = SeededRandom(seed: seed)
    var parser = JobParser()
    var job = PushJob()
    var again = PushJob()
    let messageID = Array("message".utf8)
    let writer = OutcomeWriter(worker: "w")
    var output: [UInt8] = []
    var takenCount = 0
    var parsingTooLong = 0
    for round in 0..<rounds {
      let bytes = JobFuzzTests.mutated(&random)
      job.bytes.replaceSubrange(0..<job.bytes.count, with: bytes)
      job.bodyCount = bytes.count
      var error: JobError?
      let begun = ContinuousClock.now
      do throws(JobError) {
        try parser.parse(into: &job, fallbackID: messageID.span)
      } catch let thrown {
        error = thrown
      }
      if ContinuousClock.now - begun > .seconds(1) { parsingTooLong += 1 }
      let isTaken = error == nil
      takenCount += isTaken ? 1 : 0
      func place() -> Comment { "seed \(seed), round \(round): \(String(decoding: bytes, as: UTF8.self))" }
      // The body stays as the producer wrote it (checked for some jobs only: comparing costs more than parsing here), and an accepted
      // job is valid JSON.
      guard round % 8 != 0 || job.bytes.starts(with: bytes), !isTaken || scanError(bytes) == nil,
        isTaken == !job.targets.isEmpty,
        error.map({ !$0.field.isEmpty && !$0.rule.isEmpty }) ?? true
      else {
        Issue.record(place())
        return
      }
      // The job's outcome is always valid JSON.
      guard round % 8 == 0 || isTaken else { continue }
      output.removeAll(keepingCapacity: true)
      writer.append(
        OutcomeRecord(
          outcome: isTaken ? .accepted : .invalid, detail: error?.detail, attempts: 0, receivedAt: 1, sentAt: nil,
          completedAt: 2),
        of: job, target: isTaken ? 0 : nil, apnsID: UUIDValue.apnsID(for: job, target: isTaken ? 0 : nil), to: &output)
      guard scanError(output) == nil else {
        Issue.record(place())
        return
      }
      guard isTaken else { continue }
      output.removeAll(keepingCapacity: true)
      JobRewriter.append(job, onlyTarget: job.targets.count - 1, to: &output)
      again.bytes.replaceSubrange(0..<again.bytes.count, with: output)
      again.bodyCount = output.count
      guard (try? parser.parse(into: &again, fallbackID: messageID.span)) != nil, again.targets.count == 1 else {
        Issue.record(place())
        return
      }
    }
    #expect(takenCount > rounds / 100, "the damage leaves some jobs sound")
    // The buffers grow with the longest job and no further.
    #expect(job.bytes.capacity < Limits.jobBytesMaximum && output.capacity < Limits.jobBytesMaximum)
    #expect(parsingTooLong == 0, "no job takes a second")
  }
}
