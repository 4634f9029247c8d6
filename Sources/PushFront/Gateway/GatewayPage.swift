/// The description of the gateway's API: for programs, and as a page.
struct GatewayPage: Sendable {
  static let shared = GatewayPage()

  let json = "{}"
  let html = ""
}
