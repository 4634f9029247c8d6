import PushCore
import TestSupport
import Testing

/// Whole requests: what comes in, what is checked, what goes out, what is answered. All bytes are fixed.
@Suite struct LiveActivitiesAPITraceTests {
  private typealias Bench = LiveActivitiesAPIBench

  /// Everything that a reading says, a line each.
  private func trace(_ reading: LiveActivitiesReading, unknown: [String] = []) -> [String] {
    var lines: [String] = []
    if let access = reading.access { lines.append("key \(access.token) may \(access.permission) \(access.scope)?") }
    switch reading.decision {
    case .answer(let answer): lines.append("answer \(answer.status) \(answer.text)")
    case .plan(let plan):
      for segment in plan.segments {
        lines.append("put \(segment.code) \(String(decoding: segment.filter.json, as: UTF8.self))")
      }
      for publication in plan.publications {
        switch publication {
        case .job(let id, let jobClass, let bytes):
          lines.append("job \(id) \(jobClass) \(String(decoding: bytes, as: UTF8.self))")
        case .registration(let bytes): lines.append("registration \(String(decoding: bytes, as: UTF8.self))")
        }
      }
      if !plan.devices.isEmpty { lines.append("devices \(plan.devices.joined(separator: " "))") }
      if !plan.users.isEmpty { lines.append("users \(plan.users.joined(separator: " "))") }
      if !plan.ignored.isEmpty { lines.append("ignored \(plan.ignored.map(\.rawValue).joined(separator: " "))") }
      let answer = plan.answer(isConfirmed: true, unknown: unknown)
      lines.append("answer \(answer.status) \(answer.text)")
    }
    return lines
  }

  @Test func twoActivitiesStart() throws {
    var bench = try Bench()
    let request = """
      {"request": {"application": "XXXXX-XXXXX", "auth": "hk_1",
       "notifications": [
        {"content": "Your ride is near", "title": "Ride", "live_activity_id": "ride-17", "devices": ["hwid-1", "hwid-2"],
         "live_activity": {"content-state": {"eta": 4}, "attributes-type": "RideAttributes", "attributes": {"car": "red"},
                           "dismissal-date": 1}},
        {"content": "Goal", "live_activity_id": "game-3", "filter_code": "T(\\"team\\", EQ, \\"blue\\")",
         "live_activity": {"content-state": {}, "attributes-type": "Game", "attributes": {}}}]}}
      """
    let lines = trace(bench.read("startLiveActivity", request), unknown: ["hwid-2"])
    #expect(
      lines.joined(separator: "\n") == """
        key hk_1 may send com.example.app in production?
        put filter:b66cfbe4b54b30c440e4ded80d5aeff1 {"tag":"team","is":"blue"}
        job 910a2dec-8902-4cc1-beeb-8da1658eec67 transactional {"version":1,"id":"910a2dec-8902-4cc1-beeb-8da1658eec67",\
        "app":"com.example.app","environment":"production","push_type":"liveactivity","activity":"ride-17",\
        "to":{"devices":["hwid-1","hwid-2"]},"fallback":{"title":"Ride","body":"Your ride is near"},\
        "meta":{"message_code":"7214-86A72BDB-AD55E03A"},"payload":{"aps":{"timestamp":1796000000,"event":"start",\
        "content-state":{"eta": 4},"attributes":{"pushwoosh":{"activityId":"ride-17"},"car": "red"},\
        "alert":{"title":"Ride","body":"Your ride is near"},"attributes-type":"RideAttributes"}}}
        job f893a2ee-fb32-455e-b1c1-8690ee42c90b transactional {"version":1,"id":"f893a2ee-fb32-455e-b1c1-8690ee42c90b",\
        "app":"com.example.app","environment":"production","push_type":"liveactivity","activity":"game-3",\
        "to":{"segment":"filter:b66cfbe4b54b30c440e4ded80d5aeff1"},"fallback":{"title":"Goal","body":"Goal"},\
        "meta":{"message_code":"7AA7-8D15F143-EF2520DA"},"payload":{"aps":{"timestamp":1796000000,"event":"start",\
        "content-state":{},"attributes":{"pushwoosh":{"activityId":"game-3"}},"alert":{"title":"Goal","body":"Goal"},\
        "attributes-type":"Game"}}}
        devices hwid-1 hwid-2
        ignored dismissal-date
        answer 200 {"status_code":200,"status_message":"OK",\
        "response":{"Messages":["7214-86A72BDB-AD55E03A","7AA7-8D15F143-EF2520DA"],"UnknownDevices":{"":["hwid-2"]}}}
        """)
  }

  @Test func aDeviceRegisters() throws {
    var bench = try Bench()
    let calls = [
      (
        "registerDevice",
        """
        {"request": {"application": "XXXXX-XXXXX", "hwid": "1CA68A12-8DAC", "userId": "u-1", "v": "7.1.3", "device_type": 1,
         "push_token": "\(Bench.token)", "language": "it", "timezone": 7200, "os_version": "18.1", "gateway": "production",
         "tags": {"level": {"operation": "increment", "value": 1}}}}
        """
      ),
      (
        "setActivityPushToStartToken",
        """
        {"request": {"application": "XXXXX-XXXXX", "hwid": "1CA68A12-8DAC", "userId": "u-1", "device_type": 1,
         "activity_push_to_start_token": "80ab80ab"}}
        """
      ),
      (
        "setActivityToken",
        """
        {"request": {"application": "XXXXX-XXXXX", "hwid": "1CA68A12-8DAC", "activity_id": "ride-17", "activity_token": ""}}
        """
      ),
      ("unregisterDevice", #"{"request": {"application": "XXXXX-XXXXX", "hwid": "1CA68A12-8DAC"}}"#),
    ]
    let lines = calls.flatMap { method, body in trace(bench.read(method, body, authorization: "Token hk_2")) }
    #expect(
      lines.joined(separator: "\n") == """
        key hk_2 may register com.example.app in production?
        registration {"version":1,"kind":"device","at":1796000000500,"app":"com.example.app","environment":"production",\
        "device":"1CA68A12-8DAC","user":"u-1","token":"00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0",\
        "locale":"it","os_version":"18.1","time_zone":"Etc/GMT-2","tags":{"level":{"increment":1}}}
        answer 200 {"status_code":200,"status_message":"OK","response":null}
        key hk_2 may register com.example.app in production?
        registration {"version":1,"kind":"device","at":1796000000500,"app":"com.example.app","environment":"production",\
        "device":"1CA68A12-8DAC","push_to_start":{"*":"80ab80ab"}}
        answer 200 {"status_code":200,"status_message":"OK","response":null}
        key hk_2 may register com.example.app in production?
        registration {"version":1,"kind":"activity","at":1796000000500,"app":"com.example.app","environment":"production",\
        "device":"1CA68A12-8DAC","activity":"ride-17","token":""}
        answer 200 {"status_code":200,"status_message":"OK","response":null}
        key hk_2 may register com.example.app in production?
        registration {"version":1,"kind":"device","at":1796000000500,"app":"com.example.app","environment":"production",\
        "device":"1CA68A12-8DAC","token":null,"push_to_start":null}
        answer 200 {"status_code":200,"status_message":"OK","response":null}
        """)
  }
}
