import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("CBOR of attestations", .bounded)
struct CBORItemTests {
    /// SplitMix64, whose seed a failure prints.
    private struct Generator: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var value = state
            value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
            value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
            return value ^ value >> 31
        }
    }

    private static let sample = TestCBOR.map([
        ("fmt", TestCBOR.text("apple-appattest")),
        ("attStmt", TestCBOR.map([("x5c", TestCBOR.array([TestCBOR.bytes([1, 2])]))])),
        ("authData", TestCBOR.bytes([UInt8](repeating: 3, count: 300))),
    ])

    @Test func `an object is decoded`() throws {
        let item = try #require(CBORItem(Self.sample))
        #expect(item["fmt"] == .text("apple-appattest"))
        #expect(item["attStmt"]?["x5c"] == .array([.bytes([1, 2])]))
        #expect(item["authData"]?.data?.count == 300)
        #expect(item["other"] == nil)
    }

    @Test(
        arguments: [
            [], [0x00], [0x20], [0xF6], [0xFB, 0, 0, 0, 0, 0, 0, 0, 0], [0xC0, 0x60],
            [0x5F, 0x41, 1, 0xFF], [0xBF, 0xFF], [0x9F, 0xFF], [0x61, 0xFF], [0x41], [0x42, 1],
            [0x40, 0x40], [0xA1, 0x40, 0x40], [0xA2, 0x61, 0x61, 0x40, 0x61, 0x61, 0x40],
            [0x5B, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], [0x5A, 0xFF, 0xFF, 0xFF, 0xFF],
            [0x81, 0x81, 0x81, 0x81, 0x81, 0x40], [0x98, 0xFF],
        ] as [[UInt8]]
    )
    func `other or malformed data is refused`(data: [UInt8]) {
        #expect(CBORItem(data) == nil)
    }

    @Test func `more values than the limit are refused`() {
        let limit = CBORItem.itemsLimit
        let empty = TestCBOR.bytes([])
        #expect(CBORItem(TestCBOR.array(Array(repeating: empty, count: limit - 1))) != nil)
        #expect(CBORItem(TestCBOR.array(Array(repeating: empty, count: limit))) == nil)
    }

    @Test func `more bytes than the limit are refused`() {
        let large = TestCBOR.bytes([UInt8](repeating: 0, count: CBORItem.bytesLimit - 3))
        #expect(CBORItem(large) != nil)
        #expect(CBORItem(large + [0]) == nil)
    }

    @Test func `each truncation of an object is refused`() {
        for count in 0..<Self.sample.count {
            #expect(CBORItem(Array(Self.sample.prefix(count))) == nil, "\(count) bytes")
        }
    }

    @Test(arguments: 0..<64 as Range<UInt64>)
    func `changed and random bytes are decoded or refused, and a value is bounded`(seed: UInt64) {
        var generator = Generator(state: seed)
        for _ in 0..<500 {
            var data = Self.sample
            if Bool.random(using: &generator) {
                data = (0..<Int.random(in: 0...200, using: &generator)).map { _ in
                    UInt8.random(in: 0...255, using: &generator)
                }
            }
            for _ in 0..<Int.random(in: 0...4, using: &generator) where !data.isEmpty {
                data[Int.random(in: data.indices, using: &generator)] =
                    UInt8.random(in: 0...255, using: &generator)
            }
            guard let item = CBORItem(data) else { continue }
            #expect(Self.size(of: item) <= data.count, "seed \(seed)")
        }
    }

    @Test(arguments: 0..<16 as Range<UInt64>)
    func `a changed attestation object never proves another key`(seed: UInt64) async throws {
        let service = try TestAppAttest(at: ManualClock.start)
        let verifier = AppAttest(
            AppAttestSettings(
                appID: TestAppAttest.app,
                roots: [try AppAttestRoot(service.root)]
            )
        )
        let key = TestAppAttest.Key()
        let valid = try service.attestation(of: key, "challenge")
        let bytes = try #require(AttestationObject.bytes(valid.attestationObject))
        let signed = try #require(CBORItem(bytes)?["authData"]?.data).count
        let original = try await verify(valid, by: verifier)
        var generator = Generator(state: seed)
        for _ in 0..<30 {
            var changed = bytes
            let index = Int.random(in: changed.indices, using: &generator)
            changed[index] ^= 1 << UInt8.random(in: 0...7, using: &generator)
            var wrong = valid
            wrong.attestationObject = Data(changed).base64EncodedString()
            let accepted = try? await verify(wrong, by: verifier)
            // The receipt, and padding of certificates, are not a part of the proof.
            let isProof = index >= bytes.count - signed
            #expect(accepted == nil || !isProof, "seed \(seed), byte \(index)")
            #expect(accepted == nil || accepted == original, "seed \(seed), byte \(index)")
        }
    }

    private func verify(
        _ attestation: DeviceAttestation,
        by verifier: AppAttest
    ) async throws -> AttestedPublicKey {
        try await verifier.attest(
            attestation,
            clientData: Array("challenge".utf8),
            at: ManualClock.start
        )
    }

    private static func size(of item: CBORItem) -> Int {
        switch item {
        case .text(let text): text.utf8.count
        case .bytes(let bytes): bytes.count
        case .array(let items): items.map(size).reduce(0, +)
        case .map(let members): members.map { $0.key.utf8.count + size(of: $0.value) }.reduce(0, +)
        }
    }
}
