import Foundation
import Testing

@testable import PushCore

/// Numbers of messages, replies and answers: extreme ones are refused or bounded where they are read, and no arithmetic on them traps.
@Suite struct ForeignNumberTests {
  private static let extremes: [Int64] = [.max, .max - 1, .min, .min + 1, 1 << 53 + 1, -1]

  @Test func instants_saturate() {
    let now = Instant(nanoseconds: 1_000_000_000)
    #expect(now.adding(milliseconds: .max) == .distantFuture && now.adding(milliseconds: .max / 1_000_000) > now)
    #expect(now.adding(milliseconds: .min).nanoseconds == .min)
    #expect(Instant.distantFuture.adding(milliseconds: 1) == .distantFuture)
    #expect(Instant.distantFuture.milliseconds(since: Instant(nanoseconds: .min)) == .max / 1_000_000)
    #expect(Instant(nanoseconds: .min).milliseconds(since: now) == .min / 1_000_000)
    #expect(now.adding(milliseconds: 5).milliseconds(since: now) == 5)
  }

  @Test func cursors_areBounded() {
    for text in [
      "4294967295:0:0:0", "0:0:4294967295:0", "0:0:0:18446744073709551615", "1073741825:0:0:0", "-1:0:0:0",
      "99999999999999999999:0:0:0",
    ] {
      #expect(ExpansionCursor(text) == nil, "\(text)")
    }
    #expect(ExpansionCursor("1073741824:4294967295:1073741824:9007199254740992") != nil)
  }

  /// Redis may hold anything: an activity with an impossible time or number is unreadable.
  @Test func activities_withImpossibleNumbersAreUnreadable() throws {
    var activity: ActivityState?
    var jobs = ActivityJobs()
    let now: Int64 = 1_796_000_000_000
    _ = try ActivityState.start(&activity, type: "A", digest: 1, way: .tokens, job: 1, jobs: &jobs, now: now)
    let bytes = try #require(activity).encode()
    func decoded(_ bytes: [UInt8]) -> ActivityState? { ActivityState(decoding: bytes.span) }
    #expect(decoded(bytes) == activity)
    for number in ForeignNumberTests.extremes {
      for place in [3, 15] {
        var changed = bytes
        for index in 0..<8 { changed[place + index] = UInt8(truncatingIfNeeded: number >> Int64(8 * index)) }
        #expect(decoded(changed) == nil, "\(number) at \(place)")
      }
    }
    var changed = bytes
    for index in 11..<15 { changed[index] = 0xFF }
    #expect(decoded(changed) == nil, "more revisions than 32 bits")
    var random = SeededRandom(seed: 9)
    for _ in 0..<20_000 {
      var changed = bytes
      for _ in 0..<6 { changed[Int(random.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: random.next()) }
      guard let known = decoded(changed) else { continue }
      _ = (known.phase(now: now), known.expiresAt, known.forgottenAt)
      var state: ActivityState? = known
      _ = try? ActivityState.revise(&state, isEnd: false, job: 7, jobs: &jobs, now: now)
    }
  }

  @Test func rememberedOutcomes_withImpossibleTimesAreUnreadable() {
    let outcome = RememberedOutcome(
      outcome: .unregistered, unregisteredAt: 5, attempts: 1, isAmbiguous: false, sentAt: 1, completedAt: 7)
    func decoded(_ outcome: RememberedOutcome) -> RememberedOutcome? {
      var bytes: [UInt8] = []
      outcome.encode(into: &bytes)
      return RememberedOutcome(decoding: bytes.span)
    }
    #expect(decoded(outcome) == outcome)
    for number in ForeignNumberTests.extremes {
      let gone = RememberedOutcome(
        outcome: .unregistered, unregisteredAt: number, attempts: 1, isAmbiguous: false, sentAt: nil, completedAt: 7)
      let sent = RememberedOutcome(
        outcome: .accepted, attempts: 1, isAmbiguous: false, sentAt: nil, completedAt: number)
      #expect(decoded(gone) == nil && decoded(sent) == nil, "\(number)")
    }
  }

  @Test func channels_withImpossibleTimesAreUnreadable() {
    for number in ForeignNumberTests.extremes {
      #expect(ChannelEntry("1\t\(number)\t\tnews") == nil)
      #expect(ChannelIntent("1\t\(number)\towner") == nil)
    }
    #expect(ChannelEntry("1\t1796000000000\t\tnews") != nil && ChannelIntent("1\t1796000000000\towner") != nil)
  }

  /// A rate of 0 would divide by zero at each request.
  @Test(arguments: [0, -1, Int.max, 1_000_001]) func keys_withAnImpossibleRateAreUnreadable(rate: Int) throws {
    func json(_ rate: Int, _ createdAt: Int64) -> Data {
      Data(#"{"id":"a","hash":"00","app":"a","scopes":["send"],"rate":\#(rate),"created_at":\#(createdAt)}"#.utf8)
    }
    #expect(throws: DecodingError.self) { try JSONDecoder().decode(APIKey.self, from: json(rate, 1)) }
    #expect(throws: DecodingError.self) { try JSONDecoder().decode(APIKey.self, from: json(1, .max)) }
    #expect(try JSONDecoder().decode(APIKey.self, from: json(1, 1)).rate == 1)
  }

  @Test func keptAnswers_haveAStatusOfHTTP() {
    for status in ["0", "-1", "1000", "9223372036854775807", "99"] {
      let kept = Array("f\n\(status)\na\n\nbody".utf8)
      #expect(IdempotentAnswer.find(kept, fingerprint: "f") == .inFlight, "\(status)")
    }
  }

  @Test func messageIDs_thatAreNoTextAreNoIDs() {
    func isID(_ bytes: [UInt8]) -> Bool { JobParser.isID(bytes.span) }
    #expect(!isID([0x61, 0xFF, 0x62]) && !isID([]) && isID(Array("é".utf8)))
    #expect(isID(Array(repeating: 0x61, count: 128)) && !isID(Array(repeating: 0x61, count: 129)))
  }
}
