import APNsSimulator
import PushCore

/// Requests, tokens and times for the simulator's rule tests.
enum SimulatorRequests {
  static let app = "com.example.app"
  static let deviceToken = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
  static let apnsID = "8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a11"
  static let alert = #"{"aps":{"alert":"Hello"}}"#
  /// 2026-11-21 13:00:00 UTC.
  static let start = Now(monotonic: Instant(nanoseconds: 1_000_000_000), unixMilliseconds: 1_795_266_000_000)

  static func later(seconds: Int64) -> Now {
    Now(
      monotonic: start.monotonic.adding(milliseconds: seconds * 1000),
      unixMilliseconds: start.unixMilliseconds + seconds * 1000)
  }

  /// A provider token that `service()` accepts if `signature` is 0.
  static func token(
    key: String = "KEY0000001", team: String = "TEAM000001", age: Int64 = 10, algorithm: String = "ES256",
    signature: UInt8 = 0, serial: UInt8 = 0, at now: Now = start
  ) -> String {
    let part = { (json: String) in Base64.text(of: Array(json.utf8), .url) }
    let bytes = [signature, serial] + [UInt8](repeating: 7, count: 62)
    return part(#"{"alg":"\#(algorithm)","kid":"\#(key)"}"#) + "."
      + part(
        #"{"iss":"\#(team)","iat":\#(now.unixSeconds - age)}"#) + "." + Base64.text(of: bytes, .url)
  }

  /// Keys: KEY0000001 and KEY0000002 of one team, SANDBOX001, TOPIC00001 (bound to one app) related to TOPIC00002, and
  /// OTHERKEY01 of another team. A signature is valid if its first byte is 0.
  static func service(_ environment: APNsEnvironment = .production) -> SimulatedService {
    var service = SimulatedService(environment: environment, seed: 1)
    let isSigned: @Sendable ([UInt8]) -> Bool = { token in
      let parts = token.split(separator: UInt8(ascii: "."))
      return parts.count == 3 && Base64.decode(parts[2], .url)?.first == 0
    }
    service.tokens.register(RegisteredKey(team: "TEAM000001", key: "KEY0000001", verify: isSigned))
    service.tokens.register(RegisteredKey(team: "TEAM000001", key: "KEY0000002", verify: isSigned))
    service.tokens.register(
      RegisteredKey(team: "TEAM000001", key: "SANDBOX001", environment: .sandbox, verify: isSigned))
    service.tokens.register(
      RegisteredKey(
        team: "TEAM000001", key: "TOPIC00001", environment: .production, topics: [app], relatedKey: "TOPIC00002",
        verify: isSigned))
    service.tokens.register(
      RegisteredKey(
        team: "TEAM000001", key: "TOPIC00002", environment: .production, topics: [app], verify: isSigned))
    service.tokens.register(RegisteredKey(team: "TEAM000002", key: "OTHERKEY01", verify: isSigned))
    return service
  }

  /// A valid request, with headers replaced (nil: left out).
  static func device(
    _ changes: [String: String?] = [:], method: String = "POST", path: String? = nil, payload: String = alert
  ) -> SimulatedRequest {
    request(
      method, path ?? "/3/device/" + deviceToken,
      [
        "authorization": "bearer " + token(), "apns-topic": app, "apns-push-type": "alert", "apns-id": apnsID,
        "apns-priority": "10", "apns-expiration": "0",
      ], changes, payload)
  }

  static func broadcast(
    _ changes: [String: String?] = [:], method: String = "POST", path: String? = nil,
    payload: String = #"{"aps":{"timestamp":1795266000,"event":"update","content-state":{"a":1}}}"#
  ) -> SimulatedRequest {
    request(
      method, path ?? "/4/broadcasts/apps/" + app,
      [
        "authorization": "bearer " + token(), "apns-push-type": "liveactivity", "apns-request-id": apnsID,
        "apns-channel-id": "AAAAAAAAAAAAAAAAAAAAAA==", "apns-expiration": "0", "apns-priority": "10",
      ], changes, payload)
  }

  static func channel(
    _ changes: [String: String?] = [:], method: String = "POST", path: String? = nil,
    payload: String = #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
  ) -> SimulatedRequest {
    request(
      method, path ?? "/1/apps/\(app)/channels",
      ["authorization": "bearer " + token(), "apns-request-id": apnsID], changes, payload)
  }

  private static func request(
    _ method: String, _ path: String, _ defaults: [String: String], _ changes: [String: String?], _ payload: String
  ) -> SimulatedRequest {
    var headers = defaults
    for (name, value) in changes { headers[name] = value }
    let fields = headers.sorted { $0.key < $1.key }.map { SimulatedRequest.Field(name: $0.key, value: $0.value) }
    return SimulatedRequest(method: method, path: path, fields: fields, body: Array(payload.utf8))
  }
}
