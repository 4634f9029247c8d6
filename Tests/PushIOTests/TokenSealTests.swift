import PushIO
import TestSupport
import Testing

/// Tokens sealed at rest: they open only with the same key and owner.
@Suite struct TokenSealTests {
  private let token = Array("eyJhbGciOiJFUzI1NiJ9.e30.c2lnbmF0dXJl".utf8)
  private let owner = Array("TEAM:KEY".utf8)
  private let seal = TokenSeal(key: Array(0..<32))

  @Test func whatWasSealedOpens() throws {
    let sealed = try #require(seal.seal(token, belongingTo: owner))
    #expect(sealed.count == token.count + 28)
    #expect(seal.open(sealed, belongingTo: owner) == token)
    #expect(try #require(seal.seal(token, belongingTo: owner)) != sealed, "a nonce of its own")
    let empty = try #require(seal.seal([], belongingTo: []))
    #expect(seal.open(empty, belongingTo: []) == [])
  }

  @Test func nothingElseOpens() throws {
    let sealed = try #require(seal.seal(token, belongingTo: owner))
    #expect(TokenSeal(key: Array(1...32)).open(sealed, belongingTo: owner) == nil)
    #expect(seal.open(sealed, belongingTo: Array("TEAM:OTHER".utf8)) == nil)
    for index in sealed.indices {
      var changed = sealed
      changed[index] ^= 1
      #expect(seal.open(changed, belongingTo: owner) == nil)
    }
    for count in 0..<28 { #expect(seal.open(Array(sealed.prefix(count)), belongingTo: owner) == nil) }
  }

  @Test func aKeyFileHas64HexDigits() throws {
    let folder = try TemporaryFolder("seal")
    let hex = (0..<32).map { ["0", "1"][$0 / 16] + String($0 % 16, radix: 16) }.joined()
    let good = try folder.write(hex + "\n", to: "good")
    let sealed = try #require(seal.seal(token, belongingTo: owner))
    #expect(try TokenSeal(file: good).open(sealed, belongingTo: owner) == token)
    for wrong in ["", hex + "00", String(hex.dropLast(2)), "x" + hex.dropFirst()] {
      let file = try folder.write(wrong, to: "wrong")
      #expect { try TokenSeal(file: file) } throws: { error in
        "\(error)".contains("openssl rand -hex 32") && "\(error)".contains(file)
      }
    }
  }
}
