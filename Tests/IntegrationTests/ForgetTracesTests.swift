import Foundation
import PushCore
import TestSupport
import Testing

/// What Redis still has of a forgotten user, whose devices had pushes of every kind through a real worker.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct ForgetTracesTests {
  private static let user = "user-of-yesterday"
  private static let devices = (0..<3).map { "device-of-yesterday-\($0)" }

  /// All keys and values, as text in which bytes are `\x…`.
  private func everything(_ redis: RedisServer) throws -> String {
    let script = """
      local reads = {hash = {'HGETALL'}, string = {'GET'}, set = {'SMEMBERS'}, zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, list = {'LRANGE', 0, -1}}
      local all = {}
      for _, key in ipairs(redis.call('KEYS', '*')) do
        local read = reads[redis.call('TYPE', key).ok]
        all[#all + 1] = {key, redis.call(read[1], key, unpack(read, 2))}
      end
      return all
      """
    return try redis.cli(["--no-raw", "EVAL", script, "0"])
  }

  /// Which of the names are there: in plain text, or written as hex or base64.
  private func found(_ text: String) -> [String] {
    ([Self.user] + Self.devices).filter { name in
      let hex = Hex.text(Array(name.utf8))
      let base64 = Data(name.utf8).base64EncodedString().prefix { $0 != "=" }.dropLast()
      return text.contains(name) || text.lowercased().contains(hex) || text.contains(base64)
    }
  }

  @Test func aForgottenName_isNowhereInRedis() throws {
    let redis = try RedisServer()
    defer { redis.stop() }
    let world = try WorkerWorld("traces", redisURL: redis.url)
    let activity = ActivityWorld(world)
    let worker = try world.startWorker()
    func register(_ fields: String) throws {
      let now = Int64(Date().timeIntervalSince1970 * 1_000)
      try world.outside.publish(
        #"{"at":\#(now),"app":"com.example.app",\#(fields)}"#, exchange: "", routingKey: "\(world.prefix).registrations"
      )
    }
    func wait(for names: [String], _ location: SourceLocation = #_sourceLocation) throws {
      var last = ""
      let isSo = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 200) { () -> Bool? in
        last = (try? everything(redis)) ?? ""
        return found(last) == names ? true : nil
      }
      let lines = last.split(separator: "\n").filter { !found(String($0)).isEmpty }
      #expect(isSo == true, "\(found(last)): \(lines.prefix(20))", sourceLocation: location)
    }
    for (number, device) in Self.devices.enumerated() {
      let token = "a\(number)" + String(repeating: "0", count: 62)
      try register(
        """
        "kind":"device","device":"\(device)","user":"\(Self.user)","token":"\(token)","push_to_start":{"*":"b\(token)b"},\
        "locale":"de_AT","time_zone":"UTC","tags":{"plan":"gold"}
        """)
    }
    try wait(for: [Self.user] + Self.devices)
    let list = Self.devices.map { "\"\($0)\"" }.joined(separator: ",")
    let alert = #""payload":{"aps":{"alert":"Hello"}}"#
    for (id, to) in [("users", #"{"users":["\#(Self.user)"]}"#), ("devices", #"{"devices":[\#(list)]}"#)] {
      try world.publish(
        #"{"id":"\#(id)","app":"com.example.app","push_type":"alert","collapse_id":"c","to":\#(to),\#(alert)}"#)
      #expect(try activity.end(of: id).summary == ["devices": 3, "accepted": 3], "\(worker.log.suffix(2_000))")
    }
    try activity.publish("s1", #"{"users":["\#(Self.user)"]}"#, ActivityWorld.start, #""activity":"ride-17","#)
    #expect(try activity.end(of: "s1").summary == ["devices": 3, "accepted": 3])
    for (number, device) in Self.devices.enumerated() { try activity.register(device, "c\(number)50505050505050") }
    let state = #"{"aps":{"event":"update","content-state":{"eta":5}}}"#
    let isLive = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 200) { () -> Bool? in
      let shown = try? world.herald([
        "activities", "show", "ride-17", "--app", "com.example.app", "--environment", "production", "--json",
      ])
      return shown?.output.contains(#""live":3"#) == true ? true : nil
    }
    #expect(isLive == true)
    try activity.publish("u1", #"{"activity":"ride-17"}"#, state)
    #expect(try activity.end(of: "u1").summary == ["devices": 3, "accepted": 3])
    // It ends for one.
    try activity.publish(
      "l1", #"{"devices":["\#(Self.devices[0])"]}"#, #"{"aps":{"event":"end"}}"#, #""activity":"ride-17","#)
    #expect(try activity.end(of: "l1").summary == ["devices": 1, "accepted": 1])

    try register(#""kind":"forget","device":"\#(Self.devices[1])""#)
    try wait(for: [Self.user, Self.devices[0], Self.devices[2]])
    try register(#""kind":"forget","user":"\#(Self.user)""#)
    try wait(for: [])
    // The marks, by which what comes late is refused, are there.
    let marks = try redis.cli(["KEYS", "*:forgotten:*"]).split(separator: "\n")
    #expect(marks.count >= 2 && marks.allSatisfy { $0.contains(/:forgotten:[0-9a-f]{40}$/) }, "\(marks)")
    #expect(worker.drain(seconds: 30) == 0, "\(worker.log)")
    #expect(found(try everything(redis)) == [])
  }
}
