import APNsSimulator
import Testing

/// The simulator's rules for responses of accessories.
extension SimulatorRuleTests {
  static let accessoryResponse =
    #"{"aps":{"encryptedData":"PoX/+w==","sessionIdentifier":"s-1","keyID":"AQ==","messageIndex":"7"}}"#

  /// A response with other headers, and with a part of its payload replaced.
  static func response(_ changes: [String: String?] = [:], _ old: String? = nil, _ new: String = "") -> SimulatedRequest
  {
    typed(
      "accessory", topic: accessory, changes,
      payload: old.map { accessoryResponse.replacing($0, with: new) } ?? accessoryResponse)
  }

  static let accessoryRows: [Row] = [
    Row("accessory", response(), "200"),
    Row("accessory at 5", response(["apns-priority": "5"]), "200"),
    Row("accessory at 1", response(["apns-priority": "1"]), "200"),
    Row("accessory without priority", response(["apns-priority": nil]), "200"),
    Row("accessory not stored", response(["apns-expiration": "0"]), "200"),
    Row("accessory stored", response(["apns-expiration": "1795366000"]), "200"),
    Row("accessory with a collapse id", response(["apns-collapse-id": "c"]), "400 BadCollapseId"),
    Row("accessory to the app", typed("accessory", payload: accessoryResponse), "400 InvalidPushType"),
    Row("alert to the accessories' topic", typed("alert", topic: accessory, payload: R.alert), "400 InvalidPushType"),
    Row(
      "accessory's token of 128 bytes",
      R.device(
        ["apns-push-type": "accessory", "apns-topic": accessory], path: device + String(repeating: "0a", count: 128),
        payload: accessoryResponse), "200"),
    Row("accessory of 4096 bytes", response([:], "s-1", String(repeating: "s", count: 4096 - 93)), "200"),
    Row(
      "accessory of 4097 bytes", response([:], "s-1", String(repeating: "s", count: 4097 - 93)), "413 PayloadTooLarge"),
    Row("accessory, empty object", typed("accessory", topic: accessory, payload: "{}"), "400 PayloadEmpty"),
    Row("accessory without aps", typed("accessory", topic: accessory, payload: #"{"a":1}"#), "400 BadRequestPayload"),
    Row("response without data", response([:], #""encryptedData":"PoX/+w==","#), "400 BadRequestPayload"),
    Row("response's data empty", response([:], "PoX/+w==", ""), "400 BadRequestPayload"),
    Row("response's data in base64url", response([:], "PoX/+w==", "PoX_-w=="), "400 BadRequestPayload"),
    Row("response's data without padding", response([:], "PoX/+w==", "PoX/+w"), "400 BadRequestPayload"),
    Row("response's slash escaped", response([:], "PoX/+w==", #"PoX\/+w=="#), "200"),
    Row("response without session", response([:], #""sessionIdentifier":"s-1","#), "400 BadRequestPayload"),
    Row("response's session empty", response([:], "s-1", ""), "400 BadRequestPayload"),
    Row("response's session a number", response([:], #""s-1""#, "1"), "400 BadRequestPayload"),
    Row("response without key id", response([:], #""keyID":"AQ==","#), "400 BadRequestPayload"),
    Row("response's key id no base64", response([:], "AQ==", "AQ="), "400 BadRequestPayload"),
    Row("response without index", response([:], #","messageIndex":"7""#), "400 BadRequestPayload"),
    Row("response's index a number", response([:], #""7""#, "7"), "400 BadRequestPayload"),
    Row("response's index empty", response([:], #""7""#, #""""#), "400 BadRequestPayload"),
    Row("response's index negative", response([:], #""7""#, #""-7""#), "400 BadRequestPayload"),
  ]

  @Test(arguments: accessoryRows)
  func accessories(_ row: Row) {
    check(row, at: .send)
  }
}
