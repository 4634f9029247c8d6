import PushSettings
import TestSupport
import Testing

/// The token of changes at the admin port.
@Suite struct AdminTokenTests {
  @Test func aToken_isShownByItsHeaderAlone() throws {
    let folder = try TemporaryFolder("token")
    let token = try AdminToken(file: try folder.write("  0123456789abcdef\n", to: "token"))
    #expect(token.isShown(by: "Bearer 0123456789abcdef") && token.isShown(by: "bearer 0123456789abcdef"))
    for wrong in [
      nil, "", "Bearer", "Bearer ", "0123456789abcdef", "Basic 0123456789abcdef", "Bearer 0123456789abcdeF",
      "Bearer 0123456789abcdef ", "Bearer 0123456789abcde", "Bearer  0123456789abcdef0",
    ] {
      #expect(!token.isShown(by: wrong), "\(wrong ?? "nothing")")
    }
  }

  @Test(arguments: ["", "\n", "short", "0123456789 abcdef", "0123456789abcdé0", String(repeating: "a", count: 4097)])
  func aFileWithoutAToken_isRefused(text: String) throws {
    let folder = try TemporaryFolder("token")
    let file = try folder.write(text, to: "token")
    let error = #expect(throws: AdminToken.Failure.self) { try AdminToken(file: file) }
    #expect(error?.description.hasPrefix("admin.token_file: \(file): must hold 16 to 4096") == true)
    #expect(throws: AdminToken.Failure.self) { try AdminToken(file: folder.path("none")) }
  }
}
