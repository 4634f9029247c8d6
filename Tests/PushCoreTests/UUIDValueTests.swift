/// UUIDs as text, and those that are made of names.
import PushCore
import Testing

@Suite struct UUIDValueTests {
  private func parse(_ text: String) -> UUIDValue? { UUIDValue(Array(text.utf8).span) }

  @Test func readsAndWritesCanonicalText() {
    for text in [
      someID, "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
      "01234567-89ab-cdef-0123-456789abcdef",
    ] {
      #expect(parse(text)?.text == text)
    }
    #expect(
      parse("01234567-89ab-cdef-0123-456789abcdef")
        == UUIDValue(high: 0x0123_4567_89AB_CDEF, low: 0x0123_4567_89AB_CDEF))
  }

  @Test(arguments: [
    "", someID.uppercased(), String(someID.dropLast()), someID + "0", someID.replacing("-", with: ""),
    "{" + someID + "}",
    "8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a1g", "8c1f6f0e-3a57-4d0c-9f0e02f3f6d1c7a11",
    "8c1f6f0e-3a5-74d0c-9f0e-2f3f6d1c7a11",
  ]) func refusesOtherText(_ text: String) {
    #expect(parse(text) == nil)
  }

  /// RFC 3174, 7.3, and FIPS 180.
  static let digests: [(String, Int, String)] = [
    ("abc", 1, "a9993e364706816aba3e25717850c26c9cd0d89d"), ("", 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
    ("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, "84983e441c3bd26ebaae4aa1f95129e5e54670f1"),
    ("a", 20_000, "7e7308ef97590bcb05f9543bee280fb91976e90c"),
    (
      "0123456701234567012345670123456701234567012345670123456701234567", 10, "dea356a2cddd90c7a7ecedc5ebb563934f460452"
    ),
  ]

  @Test(arguments: digests) func hashes(_ text: String, _ count: Int, _ digest: String) {
    var hash = SHA1()
    let bytes = Array(text.utf8)
    for _ in 0..<count { hash.update(bytes.span) }
    let words = hash.finish()
    let hex = [words.0, words.1, words.2, words.3, words.4].map { word in
      let text = String(word, radix: 16)
      return String(repeating: "0", count: 8 - text.count) + text
    }
    #expect(hex.joined() == digest)
  }

  /// RFC 9562, A.4, and Python's documentation of uuid5.
  @Test func namesAreUUIDs() throws {
    let dns = try #require(parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
    #expect(
      UUIDValue.version5(namespace: dns, name: Array("www.example.com".utf8).span).text
        == "2ed6657d-e927-568b-95e1-2665a8aea6a2")
    #expect(
      UUIDValue.version5(namespace: dns, name: Array("python.org".utf8).span).text
        == "886313e1-3b8a-5372-9b90-0c9aee199e5d")
  }

  @Test func anIDThatIsAUUIDIsItsOwn() {
    let one = Parsed(job())
    #expect(UUIDValue.apnsID(for: one.job, target: 0).text == someID)
  }

  /// Apple's frameworks write upper case.
  @Test func inWhateverCase() {
    let id = "0123abcd-89ab-4def-8123-456789abcdef"
    for text in [id, id.uppercased(), "0123ABCD-89ab-4DEF-8123-456789abcdef"] {
      #expect(UUIDValue.apnsID(for: Parsed(job([("id", "\"\(text)\"")])).job, target: 0).text == id)
    }
    #expect(UUIDValue(Array(id.uppercased().utf8).span) == nil, "a value has one text")
    for text in ["0123ABCD_89AB-4DEF-8123-456789ABCDEF", "0123ABCG-89AB-4DEF-8123-456789ABCDEF"] {
      #expect(UUIDValue(anyCase: Array(text.utf8).span) == nil, "\(text)")
    }
  }

  @Test func otherIDsBecomeVersion5() {
    #expect(UUIDValue.heraldNamespace.text == "66f0f2ab-a559-4457-9a4d-d3d9f5a2fb2a")
    let batch = Parsed(job([("to", "{\"tokens\":[\"AABBCCDD\",\"00112233\"]}")]))
    for (index, token) in ["aabbccdd", "00112233"].enumerated() {
      let name = Array("\(someID)\u{0}\(token)".utf8)
      #expect(
        UUIDValue.apnsID(for: batch.job, target: index)
          == UUIDValue.version5(namespace: .heraldNamespace, name: name.span))
    }
    let named = Parsed(job([("id", "\"order-1\"")]))
    let name = Array("order-1\u{0}\(someToken)".utf8)
    #expect(
      UUIDValue.apnsID(for: named.job, target: 0) == UUIDValue.version5(namespace: .heraldNamespace, name: name.span))
    #expect(
      UUIDValue.apnsID(for: named.job, target: 0)
        == UUIDValue.apnsID(for: Parsed(job([("id", "\"order-1\"")])).job, target: 0))
  }

  @Test func jobsWithoutAnythingHaveIDs() {
    #expect(UUIDValue.apnsID(for: Parsed("{").job, target: nil) != UUIDValue.apnsID(for: Parsed("[").job, target: nil))
    #expect(UUIDValue.apnsID(for: Parsed("{").job, target: nil) == UUIDValue.apnsID(for: Parsed("{").job, target: nil))
  }
}
