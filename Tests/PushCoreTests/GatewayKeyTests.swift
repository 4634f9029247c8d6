import PushCore
import Testing

/// Keys of the gateway: their text, whom they are for, how often.
@Suite struct GatewayKeyTests {
  private func key(
    app: String? = "com.example.app", environment: APNsEnvironment? = nil, scopes: Set<KeyScope> = [.send],
    hash: [UInt8] = Array(repeating: 7, count: 32)
  ) -> APIKey {
    APIKey(id: "abcdefgh", hash: hash, app: app, environment: environment, scopes: scopes, rate: nil, createdAt: 1)
  }

  @Test func aNewKeyIsParsed() throws {
    var random = SeededRandom(seed: 1)
    let first = APIKeyText(using: &random)
    let second = APIKeyText(using: &random)
    #expect(first.text != second.text && first.id != second.id)
    #expect(first.text.hasPrefix("hk_\(first.id)_") && first.text.utf8.count == 44)
    #expect(try #require(APIKeyText(first.text)).id == first.id)
  }

  @Test func revokedKeysComeBackToNobody() {
    var revoked = RevokedKeys()
    #expect(revoked.read(["a", "b", "c"], before: 3, after: 3).isEmpty)
    #expect(revoked.read(["b", "c"], before: 3, after: 4).isEmpty && revoked.contains("a"), "while it was read")
    #expect(revoked.read(["b", "c"], before: 4, after: 5).isEmpty, "b is revoked after it was read")
    #expect(revoked.read(["c"], before: 5, after: 5).isEmpty && revoked.contains("b"))
    #expect(revoked.read([], before: 0, after: 0).isEmpty && !revoked.contains("c"), "all are lost")
    #expect(revoked.read(["a", "b", "c"], before: 3, after: 3) == ["a", "b"] && !revoked.contains("c"))
    #expect(revoked.read(["a", "b", "c"], before: 3, after: 3).isEmpty, "that was told")
    #expect(revoked.read(["c"], before: 5, after: 5).isEmpty && revoked.contains("a") && !revoked.contains("c"))
    #expect(
      revoked.read([], before: nil, after: nil).isEmpty && !revoked.contains("c"), "how many were revoked is not known")
    #expect(revoked.read(["c", "d"], before: 5, after: 5).isEmpty)
    // Redis is restored, and another one is revoked, before the next reading; then it is restored again.
    #expect(revoked.read(["a", "d"], before: 6, after: 6) == ["a"] && revoked.contains("c"))
    #expect(revoked.read(["a", "c", "d"], before: 3, after: 3) == ["c"] && !revoked.contains("d"))
    #expect(
      revoked.read(["a", "c"], before: 3, after: 4).isEmpty && !revoked.contains("d"),
      "a key that is lost, in an old fleet's numbers")
  }

  @Test func malformedKeysAreRefused() {
    var random = SeededRandom(seed: 2)
    let text = APIKeyText(using: &random).text
    for wrong in [
      "", "hk_", String(text.dropLast()), text + "a", text.replacing("_", with: "-"), "HK" + text.dropFirst(2),
    ] {
      #expect(APIKeyText(wrong) == nil, "\(wrong)")
    }
    // Each other byte at each place.
    for place in text.utf8.indices {
      var bytes = Array(text.utf8)
      bytes[text.utf8.distance(from: text.startIndex, to: place)] = UInt8(ascii: "/")
      #expect(APIKeyText(String(decoding: bytes, as: UTF8.self)) == nil)
    }
  }

  @Test func aHashMatchesOnlyItself() {
    let hash = (0..<32).map { UInt8($0) }
    let key = key(hash: hash)
    #expect(key.matches(hash: hash))
    for index in hash.indices {
      var other = hash
      other[index] ^= 1
      #expect(!key.matches(hash: other))
    }
    #expect(!key.matches(hash: []))
  }

  @Test func adminAllowsEverything() {
    #expect(KeyScope.allCases.allSatisfy(key(scopes: [.admin]).allows))
    #expect(KeyScope.allCases.filter(key(scopes: [.send, .read]).allows) == [.send, .read])
  }

  @Test func theKeysAppAndEnvironmentTakePrecedence() throws {
    let production = AppScope(app: "com.example.app", environment: .production)
    let sandbox = AppScope(app: "com.example.app", environment: .sandbox)
    #expect(key().scope(app: nil, environment: nil) == .success(try #require(production)))
    #expect(key().scope(app: nil, environment: "sandbox") == .success(try #require(sandbox)))
    #expect(key().scope(app: "com.example.other", environment: nil) == .failure(.otherApp))
    #expect(key().scope(app: nil, environment: "test") == .failure(.unknownEnvironment))
    let bound = key(environment: .sandbox)
    #expect(bound.scope(app: nil, environment: nil) == .success(try #require(sandbox)))
    #expect(bound.scope(app: nil, environment: "production") == .failure(.otherEnvironment))
    let admin = key(app: nil, scopes: [.admin])
    #expect(admin.scope(app: nil, environment: nil) == .failure(.noApp))
    #expect(admin.scope(app: "no app", environment: nil) == .failure(.badApp))
    #expect(admin.scope(app: "com.example.app", environment: "sandbox") == .success(try #require(sandbox)))
    #expect(KeyRefusal.otherApp.isForbidden && !KeyRefusal.noApp.isForbidden)
  }

  @Test func aRateAllowsABurstAndThenRefillsSteadily() {
    var now = Instant(nanoseconds: 5)
    var rate = RequestRate(limit: 60, now: now)
    for left in (0..<60).reversed() {
      let answer = rate.take(now: now)
      #expect(answer.isAllowed && answer.remaining == left && answer.resetSeconds == 1)
    }
    #expect(!rate.take(now: now).isAllowed)
    now = now.adding(milliseconds: 999)
    #expect(!rate.take(now: now).isAllowed)
    now = now.adding(milliseconds: 1)
    #expect(rate.take(now: now).isAllowed)
    #expect(!rate.take(now: now).isAllowed)
    now = now.adding(milliseconds: 3_600_000)
    #expect(rate.take(now: now).remaining == 59)
  }

  /// In any window of time no more is allowed than the bucket and what it filled meanwhile.
  @Test func aRateIsNeverExceeded() {
    var random = SeededRandom(seed: 3)
    for limit in [1, 7, 600, APIKey.rateMaximum] {
      var now = Instant(nanoseconds: 0)
      var rate = RequestRate(limit: limit, now: now)
      var allowed = 0
      for _ in 0..<5_000 {
        now = Instant(nanoseconds: now.nanoseconds + Int64(random.next() % 50_000_000))
        let answer = rate.take(now: now)
        if answer.isAllowed { allowed += 1 }
        #expect(answer.remaining >= 0 && answer.remaining < limit)
      }
      let filled = Double(now.nanoseconds) / 60_000_000_000 * Double(limit)
      #expect(Double(allowed) <= Double(limit) + filled + 1)
      #expect(limit > 600 || Double(allowed) >= filled * 0.8)
    }
  }

  @Test func idempotencyKeysAreStringsWithOrWithoutQuotes() {
    #expect(IdempotencyKey(field: "\"8e03978e-40d5\"")?.text == "8e03978e-40d5")
    #expect(IdempotencyKey(field: "8e03978e-40d5")?.text == "8e03978e-40d5")
    for wrong in ["", "\"", "\"\"", "a b", "\"a", "a\"", "\"a\\b\"", "é", String(repeating: "a", count: 129)] {
      #expect(IdempotencyKey(field: wrong) == nil, "\(wrong)")
    }
  }

  /// RFC 8941, 3.1.2: parameters that a reader does not know are ignored.
  @Test func parametersOfAnIdempotencyKeyAreIgnored() {
    for sound in [
      ";a", ";a=b", ";a=1;  b=-2.5;c", ";*x_y-z.1=?1", #";a="b;c\"d\\""#, ";a=:aGk=:", ";a=*/t:!", ";a=@1796000000",
    ] {
      #expect(IdempotencyKey(field: "\"k\"" + sound)?.text == "k", "\(sound)")
    }
    for wrong in [
      ";", ";A", ";a=", #";a="b"#, #";a=""#, " ;a", ";a=:aGk", ";a=b c", "a", " ", ",\"l\"", ";a=é", #";a="\b""#, ";1",
    ] {
      #expect(IdempotencyKey(field: "\"k\"" + wrong) == nil, "\(wrong)")
    }
    #expect(IdempotencyKey(field: "k;a=b")?.text == "k;a=b")
  }

  @Test func aTraceIsPassedOnOrIgnored() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    #expect(TraceContext(traceparent: parent, tracestate: "a=b")?.tracestate == "a=b")
    #expect(TraceContext(traceparent: parent, tracestate: nil)?.traceparent == parent)
    #expect(TraceContext(traceparent: parent, tracestate: "a=\u{7}")?.tracestate == "")
    for wrong in [
      nil, "", parent + "0", parent.uppercased(), "ff" + parent.dropFirst(2),
      "00-00000000000000000000000000000000-b7ad6b7169203331-01",
      "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
    ] {
      #expect(TraceContext(traceparent: wrong, tracestate: "a=b") == nil)
    }
  }
}
