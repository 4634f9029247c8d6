import Foundation
import Glibc
import TestSupport
import Testing

/// Keys: who may do what, for which app, how often.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct GatewayKeyTests {
  @Test func aKeyAllowsOnlyItsScopes() throws {
    let world = try GatewayWorld("scopes")
    let send = try world.makeKey(["--app", "com.example.app", "--scope", "send"])
    let read = try world.makeKey(["--app", "com.example.app", "--scope", "read"])
    let register = try world.makeKey(["--app", "com.example.app", "--scope", "register"])
    #expect(try world.ask("POST", "/v1/jobs", key: send, body: world.job()).status == 202)
    #expect(try world.ask("GET", "/v1/jobs/a", key: send).status == 403)
    #expect(try world.ask("POST", "/v1/jobs", key: read, body: world.job()).status == 403)
    #expect(try world.ask("GET", "/v1/activities/a", key: read).status == 404)
    #expect(try world.ask("PUT", "/v1/devices/d", key: register, body: "{}").status == 202)
    #expect(try world.ask("DELETE", "/v1/users/u", key: register).status == 202)
    #expect(try world.ask("PUT", "/v1/segments/s", key: register, body: "{}").status == 403)
    for wrong in ["", "hk_", send + "a", String(send.dropLast()) + (send.hasSuffix("a") ? "b" : "a")] {
      let answer = try world.ask("POST", "/v1/jobs", key: wrong, body: world.job())
      #expect(answer.status == 401 && answer.headers["www-authenticate"] == "Bearer", "\(answer.body)")
    }
    #expect(LoopbackHTTP.request("POST", "/v1/jobs", port: world.port)?.status == 401)
    // Nothing of a key or a token is in the log.
    #expect(!world.process.log.contains("hk_") && !world.process.log.contains("00fc13ad"))
  }

  @Test func appAndEnvironmentComeFromTheKeyOrTheQuery() throws {
    let world = try GatewayWorld("apps")
    let admin = try world.makeKey(["--scope", "admin"])
    let sandbox = try world.makeKey(["--app", "com.example.other", "--environment", "sandbox"])
    #expect(try world.ask("POST", "/v1/jobs", key: admin, body: world.job()).status == 400)
    #expect(try world.ask("POST", "/v1/jobs?app=com.example.x", key: admin, body: world.job()).status == 202)
    #expect(try world.ask("POST", "/v1/jobs?environment=production", key: sandbox, body: world.job()).status == 403)
    #expect(try world.ask("POST", "/v1/jobs", key: sandbox, body: world.job()).status == 202)
    let bodies = try world.takeJobs().map { String(decoding: $0.body, as: UTF8.self) }
    #expect(bodies.count == 2 && bodies[0].contains("\"app\":\"com.example.x\""))
    #expect(bodies[1].contains("\"app\":\"com.example.other\",\"environment\":\"sandbox\""))
    // A key without an app may do everything, so it says so.
    #expect(try world.herald(["keys", "create", "--scope", "send"]).status == 64)
    // A segment of one app is not there for another.
    let filter = "{\"filter\":{\"tag\":\"plan\",\"is\":\"gold\"}}"
    #expect(try world.ask("PUT", "/v1/segments/gold", body: filter).status == 200)
    #expect(try world.ask("GET", "/v1/segments/gold?app=com.example.x", key: admin).status == 404)
    #expect(try world.ask("GET", "/v1/segments/gold?app=com.example.app", key: admin).status == 200)
    #expect(try world.ask("POST", "/v1/segments/gold/count").body == "{\"segment\":\"gold\",\"devices\":0}")
    #expect(
      try world.ask("PUT", "/v1/segments/loop", body: "{\"filter\":{\"segment\":\"loop\"}}").status == 400)
    #expect(try world.ask("PUT", "/v1/segments/two", body: "{\"filter\":{\"segment\":\"gold\"}}").status == 200)
    #expect(try world.ask("DELETE", "/v1/segments/gold").status == 409)
    #expect(try world.ask("DELETE", "/v1/segments/two").status == 204)
    #expect(try world.ask("DELETE", "/v1/segments/gold").status == 204)
    #expect(try world.ask("GET", "/v1/segments/gold").status == 404)
  }

  @Test func aKeyIsNotRefusedWhereKeysCannotBeRead() throws {
    let folder = try TemporaryFolder("keys")
    let file = folder.path("keys.jsonl")
    let world = try GatewayWorld("unreadable", further: ["keys_file: \"\(file)\""])
    try FileManager.default.moveItem(atPath: file, toPath: file + ".moved")
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 100) {
        world.process.log.contains("the keys file \(file) does not exist") ? true : nil
      } == true, "\(world.process.log)")
    // Known keys stay valid; an unknown one may be valid.
    #expect(try world.ask("POST", "/v1/jobs", body: world.job()).status == 202)
    let unknown = "hk_00000000_" + String(repeating: "0", count: 32)
    #expect(try world.ask("POST", "/v1/jobs", key: unknown, body: world.job()).status == 503)
    try FileManager.default.moveItem(atPath: file + ".moved", toPath: file)
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 100) {
        (try? world.ask("POST", "/v1/jobs", key: unknown, body: world.job()).status) == 401 ? true : nil
      } == true)
  }

  /// The key was valid when the head of its request came.
  @Test func aRequestWhoseKeyIsRevokedMeanwhile_isNotTaken() throws {
    let world = try GatewayWorld("midway")
    let key = try world.makeKey(["--app", "com.example.app"])
    let body = Array(world.job().utf8)
    let socket = try RawSocket(port: world.port)
    let head =
      "POST /v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(key)\r\nContent-Type: application/json\r\n"
      + "Content-Length: \(body.count)\r\nConnection: close\r\n\r\n"
    socket.send(Array(head.utf8) + body.prefix(10))
    // Its key is read from Redis meanwhile.
    #expect(try world.ask("POST", "/v1/jobs", key: key, body: world.job()).status == 202)
    #expect(try world.herald(["keys", "revoke", key]).output == "revoked; taken by 1 gateway\n")
    socket.send(Array(body.dropFirst(10)))
    var answer = ""
    _ = ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 10) { () -> Bool? in
      answer += String(decoding: socket.receive(milliseconds: 100), as: UTF8.self)
      return socket.isAtEnd ? true : nil
    }
    #expect(answer.hasPrefix("HTTP/1.1 401") && answer.contains("the key was revoked"), "\(answer)")
  }

  @Test(arguments: [false, true])
  func keysAreListedUsedAndRevoked(_ isInFile: Bool) throws {
    let folder = try TemporaryFolder("keys")
    let file = folder.path("keys.jsonl")
    let world = try GatewayWorld("revoke", further: isInFile ? ["keys_file: \"\(file)\""] : [])
    let old = try world.makeKey(["--app", "com.example.app"])
    let new = try world.makeKey(["--app", "com.example.app"])
    for key in [old, new] { #expect(try world.ask("POST", "/v1/jobs", key: key, body: world.job()).status == 202) }
    let listed = try world.herald(["keys", "list", "--app", "com.example.app", "--json"])
    #expect(listed.status == 0 && listed.output.split(separator: "\n").count == 3)
    #expect(
      !listed.output.contains("hash") && !listed.output.contains(old) && listed.output.contains("\"scopes\":[\"send\"]")
    )
    let revoked = try world.herald(["keys", "revoke", old])
    #expect(
      revoked.status == 0 && revoked.output == "revoked; taken by 1 gateway\n", "\(revoked.output)\(revoked.errors)")
    #expect(try world.ask("POST", "/v1/jobs", key: old, body: world.job()).status == 401)
    let again = try world.herald(["keys", "revoke", old])
    #expect(
      again.status == 1 && again.errors.contains("there is no such key (any more); taken by 1 gateway"),
      "\(again.errors)")
    #expect(try world.ask("POST", "/v1/jobs", key: new, body: world.job()).status == 202)
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 15_000, everyMilliseconds: 500) {
        let output = try? world.herald(["keys", "list", "--json"]).output
        return output?.firstMatch(of: /"used_at":[0-9]{13}/) == nil ? nil : true
      } == true)
    if isInFile {
      let text = try String(contentsOfFile: file, encoding: .utf8)
      #expect(text.split(separator: "\n").count == 2 && !text.contains("hk_"))
      let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
      #expect(mode == 0o600)
    }
  }

  /// A value that is no key is no reason to go on with the others as they were.
  @Test(arguments: [false, true])
  func aValueThatIsNoKeyAffectsNoOther(_ isInFile: Bool) throws {
    let folder = try TemporaryFolder("keys")
    let file = folder.path("keys.jsonl")
    let redis = try RedisServer()
    let world = try GatewayWorld(
      "broken", redisURL: redis.url, further: isInFile ? ["keys_file: \"\(file)\""] : [])
    let old = try world.makeKey(["--app", "com.example.app"])
    #expect(try world.ask("POST", "/v1/jobs", key: old, body: world.job()).status == 202)
    let name = isInFile ? "line 3" : "brokenid"
    if isInFile {
      let text = try String(contentsOfFile: file, encoding: .utf8)
      try Data((text + "{\"id\":7}\n").utf8).write(to: URL(filePath: file), options: .atomic)
    } else {
      _ = try redis.cli(["HSET", "\(world.prefix):{gateway}:keys", "brokenid", "{\"id\":7}"])
    }
    #expect(world.process.waitForLine("has values that are no keys, which do not work: \(name)"))
    let revoked = try world.herald(["keys", "revoke", old])
    #expect(revoked.output == "revoked; taken by 1 gateway\n", "\(revoked.output)\(revoked.errors)")
    #expect(try world.ask("POST", "/v1/jobs", key: old, body: world.job()).status == 401)
    #expect(try world.ask("POST", "/v1/jobs", body: world.job()).status == 202)
    let listed = try world.herald(["keys", "list", "--json"])
    #expect(listed.status == 0 && listed.output.split(separator: "\n").count == 1)
    // The line of the revoked key is gone.
    let nameNow = isInFile ? "line 2" : name
    #expect(listed.errors.contains("no keys, which do not work: \(nameNow)"), "\(listed.errors)")
    // A change of the file keeps the line, for whoever mends it.
    _ = try world.makeKey(["--app", "com.example.app"])
    if isInFile {
      #expect(try String(contentsOfFile: file, encoding: .utf8).contains("{\"id\":7}"))
    } else {
      #expect(try world.herald(["keys", "revoke", "brokenid"]).status == 0)
      #expect(try world.herald(["keys", "list"]).errors.isEmpty)
    }
  }

  /// A gateway that does not read its keys may still take one that was revoked, and is named.
  @Test func aRevocationNamesTheGatewaysThatHaveNotReadIt() throws {
    let redis = try RedisServer()
    let world = try GatewayWorld("deaf", redisURL: redis.url)
    let old = try world.makeKey(["--app", "com.example.app"])
    world.process.child.pause()
    let refused = try world.herald(["keys", "revoke", old])
    world.process.child.resume()
    #expect(refused.status == 1 && refused.output.isEmpty)
    #expect(
      refused.errors.contains("revoked, and taken by 0 gateways, but these have not read it")
        && refused.errors.contains("/\(world.process.child.pid)/")
        && refused.errors.contains(": it last read its keys "),
      "\(refused.errors)")
    // One that is cut off from Redis for long goes on with the keys that it has.
    let alive = "\(world.prefix):{gateway}:alive"
    let seen = Int64(Date().timeIntervalSince1970 * 1_000) - 3_600_000
    try redis.cli(["HSET", alive, "host/7/abc", "\(seen) 0 redis", "host/8/abc", "\(seen - 86_400_000) 0 redis"])
    let other = try world.makeKey(["--app", "com.example.app"])
    let cutOff = try world.herald(["keys", "revoke", other])
    #expect(
      cutOff.status == 1 && cutOff.errors.contains("host/7/abc: last seen 60 min ago. Cut off from Redis")
        && cutOff.errors.contains("repeat with --gone 'host/7/abc'") && !cutOff.errors.contains("host/8"),
      "\(cutOff.output)\(cutOff.errors)")
    let gone = try world.herald(["keys", "revoke", other, "--gone", "host/7/abc"])
    #expect(gone.errors.contains("there is no such key (any more); taken by 1 gateway"), "\(gone.output)\(gone.errors)")
    let third = try world.makeKey(["--app", "com.example.app"])
    #expect(try world.herald(["keys", "revoke", third]).output == "revoked; taken by 1 gateway\n")
    // Redis has forgotten which gateways run.
    let fourth = try world.makeKey(["--app", "com.example.app"])
    try redis.cli(["DEL", alive])
    #expect(try world.herald(["keys", "revoke", fourth]).output == "revoked; taken by 1 gateway\n")
    // One that has ended is not waited for.
    #expect(world.process.drain(seconds: 20) == 0)
    let second = try world.makeKey(["--app", "com.example.app"])
    #expect(try world.herald(["keys", "revoke", second]).output == "revoked; no gateway is running\n")
  }

  /// Gateways that are killed and started again without end: each is known for a day, and all of them are more than one reply may hold.
  @Test func aRevocationReadsManyGatewaysInParts() throws {
    let redis = try RedisServer()
    let world = try GatewayWorld("many", redisURL: redis.url)
    let alive = "\(world.prefix):{gateway}:alive"
    let count = 12_000
    /// - Parameter age: milliseconds.
    func add(_ name: String, age: Int64) throws {
      let seen = Int64(Date().timeIntervalSince1970 * 1_000) - age
      let script = """
        for number = 1, ARGV[3] do
          redis.call('HSET', KEYS[1], string.rep(ARGV[1], 120) .. number, string.format('%.0f 0 redis', ARGV[2]))
        end
        """
      try redis.cli(["EVAL", script, "1", alive, name, "\(seen)", "\(count)"])
    }
    try add("k", age: 3_600_000)
    let key = try world.makeKey(["--app", "com.example.app"])
    let refused = try world.herald(["keys", "revoke", key])
    #expect(
      refused.status == 1 && refused.errors.contains("revoked, and taken by 1 gateway"), "\(refused.errors.prefix(500))"
    )
    #expect(refused.errors.matches(of: /: last seen 60 min ago/).count == count)
    #expect(try world.ask("GET", "/v1/segments/none", key: key).status == 401)
    // Those from before yesterday are removed, a part with each heartbeat.
    try redis.cli(["DEL", alive])
    try add("o", age: 2 * 86_400_000)
    let left = ChildProcess.poll(timeoutMilliseconds: 90_000, everyMilliseconds: 500) {
      (try? redis.cli(["HLEN", alive]).trimmingCharacters(in: .whitespacesAndNewlines)) == "1" ? true : nil
    }
    let length = try redis.cli(["HLEN", alive])
    #expect(left == true, "\(length)")
  }

  /// Redis was restored to a time before a revocation that this gateway has taken.
  @Test func revokedKey_staysRefusedWhereRedisBringsItBack() throws {
    let redis = try RedisServer()
    let world = try GatewayWorld("restored", redisURL: redis.url)
    let app = ["--app", "com.example.app"]
    let (kept, revoked) = (try world.makeKey(app), try world.makeKey(app))
    func send(_ key: String) throws -> Int { try world.ask("POST", "/v1/jobs", key: key, body: world.job()).status }
    for key in [kept, revoked] { #expect(try send(key) == 202) }
    try redis.mark(world.prefix)
    #expect(try world.herald(["keys", "revoke", revoked]).output == "revoked; taken by 1 gateway\n")
    try redis.rewind(world.prefix, ends: true)
    let isTold = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 100) {
      world.process.log.contains("keys again that were revoked, as if it was restored") ? true : nil
    }
    #expect(isTold == true, "\(world.process.log)")
    #expect(try send(revoked) == 401 && send(kept) == 202)
    #expect(try world.herald(["keys", "revoke", revoked]).output == "revoked; taken by 1 gateway\n")
  }

  /// Another key is revoked at once after Redis was restored, and Redis is restored again.
  @Test func revocationAfterARewind_isANewOne() throws {
    let redis = try RedisServer()
    let world = try GatewayWorld("again", redisURL: redis.url)
    let app = ["--app", "com.example.app"]
    let keys = [try world.makeKey(app), try world.makeKey(app)]
    func send(_ key: String) throws -> Int { try world.ask("POST", "/v1/jobs", key: key, body: world.job()).status }
    for key in keys { #expect(try send(key) == 202) }
    for key in keys {
      try redis.mark(world.prefix)
      #expect(try world.herald(["keys", "revoke", key]).output == "revoked; taken by 1 gateway\n")
      try redis.rewind(world.prefix, ends: false)
    }
    let isTold = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 100) {
      keys.allSatisfy { key in
        world.process.log.split(separator: "\n").contains {
          $0.contains("keys again that were revoked") && $0.contains(key.dropFirst(3).prefix(8))
        }
      } ? true : nil
    }
    #expect(isTold == true, "\(world.process.log)")
    for key in keys { #expect(try send(key) == 401) }
  }

  /// Something else's value tells nothing about revocations; the keys are read all the same.
  @Test func keysAreRead_whereTheirRevisionCannotBe() throws {
    let redis = try RedisServer()
    let world = try GatewayWorld("foreign", redisURL: redis.url)
    try redis.cli(["DEL", "\(world.prefix):{gateway}:revision"])
    try redis.cli(["LPUSH", "\(world.prefix):{gateway}:revision", "x"])
    let key = try world.makeKey(["--app", "com.example.app"])
    #expect(try world.ask("POST", "/v1/jobs", key: key, body: world.job()).status == 202, "\(world.process.log)")
  }

  /// A gateway with a file of its own does not read the revocation, whatever the time of its file.
  @Test func aRevocationNamesTheGatewaysWithAnotherFile() throws {
    let folder = try TemporaryFolder("keys")
    let (file, other) = (folder.path("keys.jsonl"), folder.path("other.jsonl"))
    let world = try GatewayWorld("copies", further: ["keys_file: \"\(file)\""])
    let old = try world.makeKey(["--app", "com.example.app"])
    #expect(try world.ask("POST", "/v1/jobs", key: old, body: world.job()).status == 202)
    try FileManager.default.copyItem(atPath: file, toPath: other)
    try FileManager.default.setAttributes([.modificationDate: Date().addingTimeInterval(3_600)], ofItemAtPath: file)
    let elsewhere = try world.folder.write(
      world.folder.read("herald.yaml").replacingOccurrences(of: file, with: other), to: "elsewhere.yaml")
    func revoke() throws -> ChildProcess.Output {
      try ChildProcess.run(
        [try BuiltProgram.path("herald"), "keys", "revoke", old, "--config", elsewhere],
        environment: ChildProcess.inheritedEnvironment(without: ["HERALD_"]), timeoutMilliseconds: 60_000)
    }
    let refused = try revoke()
    #expect(refused.status == 1 && refused.output.isEmpty, "\(refused.output)")
    #expect(
      refused.errors.contains("revoked, and taken by 0 gateways, but these have not read it")
        && refused.errors.contains("/\(world.process.child.pid)/")
        && refused.errors.contains(": its keys file has other keys than \(other)"),
      "\(refused.errors)")
    #expect(try world.ask("POST", "/v1/jobs", key: old, body: world.job()).status == 202)
    // It is enough that it has the same keys.
    try Data(contentsOf: URL(filePath: other)).write(to: URL(filePath: file), options: .atomic)
    let again = try revoke()
    #expect(again.errors.contains("there is no such key (any more); taken by 1 gateway"), "\(again.errors)")
    #expect(try world.ask("POST", "/v1/jobs", key: old, body: world.job()).status == 401)
    // What gateways of the build before tell does not say which keys they have.
    let alive = "\(world.prefix):{gateway}:alive"
    let now = Int64(Date().timeIntervalSince1970 * 1_000)
    try RedisServer.shared().cli(["HSET", alive, "host/7/abc", "\(now) \(now * 1_000 + 3_600_000_000) file"])
    let older = try revoke()
    #expect(older.errors.contains("host/7/abc: its build cannot tell"), "\(older.errors)")
  }

  @Test func keysThatAreChangedAtTheSameTimeAreAllKept() throws {
    let folder = try TemporaryFolder("keys")
    let file = folder.path("keys.jsonl")
    let world = try GatewayWorld("together", further: ["keys_file: \"\(file)\""])
    func ids() throws -> [String] {
      try String(contentsOfFile: file, encoding: .utf8).matches(of: /"id":"([^"]+)"/).map { String($0.1) }
    }
    func runTogether(_ commands: [[String]]) throws {
      let processes = try commands.map { try world.begin(["keys"] + $0) }
      for process in processes { #expect(process.wait(timeoutMilliseconds: 60_000) == 0) }
    }
    let create = ["create", "--app", "com.example.app"]
    try runTogether(Array(repeating: create, count: 10))
    let made = try ids()
    // With the world's own.
    #expect(made.count == 11)
    let revoked = made.suffix(5)
    try runTogether(revoked.map { ["revoke", $0] } + Array(repeating: create, count: 5))
    let left = try ids()
    #expect(left.count == made.count && Set(left).isDisjoint(with: revoked))
    // No lock is left over.
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path("")) == ["keys.jsonl"])
  }

  @Test func aKeyOfOneEnvironmentDoesNotSeeTheOther() throws {
    let world = try GatewayWorld("environment")
    let sandbox = try world.makeKey([
      "--app", "com.example.app", "--environment", "sandbox", "--scope", "send,read",
    ])
    #expect(try world.ask("POST", "/v1/jobs", body: world.job("\"id\":\"production\",")).status == 202)
    #expect(try world.ask("GET", "/v1/jobs/production", key: sandbox).status == 404)
    #expect(try world.ask("POST", "/v1/jobs", key: sandbox, body: world.job("\"id\":\"sandbox\",")).status == 202)
    #expect(try world.ask("GET", "/v1/jobs/sandbox", key: sandbox).status == 200)
    #expect(try world.ask("GET", "/v1/jobs/sandbox?environment=sandbox").status == 200)
    #expect(try world.ask("GET", "/v1/jobs/sandbox").status == 404)
  }

  @Test func aKeyOverItsRateIsRefused() throws {
    let world = try GatewayWorld("rate")
    let key = try world.makeKey(["--app", "com.example.app", "--rate", "3"])
    for left in [2, 1, 0] {
      let answer = try world.ask("POST", "/v1/jobs", key: key, body: world.job())
      #expect(answer.status == 202 && answer.headers["ratelimit-policy"] == "\"key\";q=3;w=60")
      #expect(answer.headers["ratelimit"]?.hasPrefix("\"key\";r=\(left);t=") ?? false)
    }
    let over = try world.ask("POST", "/v1/jobs", key: key, body: world.job())
    #expect(over.status == 429 && over.body.contains("/docs#quota-exceeded"))
    let seconds = try #require(over.headers["retry-after"].flatMap { Int($0) })
    #expect((1...20).contains(seconds))
    // Another key is not concerned.
    let other = try world.ask("POST", "/v1/jobs", body: world.job())
    #expect(other.status == 202 && other.headers["ratelimit"] == nil)
  }
}
