import Crypto
import Foundation
import Logging
import NIOHTTP1
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineAuthority
@testable import SanguineServer

/// The client of DeviceCheck over a stand-in of Apple's server.
@Suite("DeviceCheck over HTTP", .bounded)
struct HTTPDeviceCheckTests {
    private typealias Request = ScriptedUpstream.Request
    private let key = P256.Signing.PrivateKey()
    private let clock = ManualWallClock()

    private func client(
        _ port: Int,
        usesBits: Bool = true,
        post: @escaping HTTPDeviceCheck.Post = HTTPDeviceCheck.overHTTP
    ) throws -> HTTPDeviceCheck {
        HTTPDeviceCheck(
            key: try DeviceCheckKey(
                pem: key.pemRepresentation,
                id: "KEY4567890",
                team: "TEAM567890"
            ),
            server: "http://127.0.0.1:\(port)",
            usesBits: usesBits,
            clock: clock,
            delay: ContinuousClock(),
            pauses: [.zero, .zero],
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            post: post
        )
    }

    /// Runs the body with a client whose requests are answered with a status and a body each; the
    /// last one is repeated.
    private func with(
        _ answers: [(status: String, body: String)],
        usesBits: Bool = true,
        _ body: @escaping @Sendable (HTTPDeviceCheck, ScriptedUpstream) async throws -> Void
    ) async throws {
        let usable = answers
        try await ScriptedUpstream.with { request in
            let answer = usable[min(request.number, usable.count) - 1]
            return .bytes(ScriptedUpstream.json(answer.body, status: answer.status))
        } _: { apple in
            try await body(try client(apple.port, usesBits: usesBits), apple)
        }
    }

    @Test func `the bits of a device are read`() async throws {
        let body = #"{"bit0":true,"bit1":false,"last_update_time":"2026-01"}"#
        try await with([("200 OK", body)]) { client, apple in
            #expect(try await client.query("token") == DeviceCheckBits(hasHadGrant: true))
            let request = try await apple.arrivals.first("a request")
            #expect(request.head.hasPrefix("POST /v1/query_two_bits "))
            let message = try JSONDecoder().decode(JSONValue.self, from: Data(request.body.utf8))
            #expect(message["device_token"]?.string == "token")
            #expect(message["transaction_id"]?.string?.isEmpty == false)
            #expect(message["timestamp"] == .integer(clock.now().millisecondsSince1970))
        }
    }

    @Test func `a request is authorized by a token of the key`() async throws {
        try await with([("200 OK", "Failed to find bit state")]) { client, apple in
            _ = try await client.query("token")
            let request = try await apple.arrivals.first("a request")
            let line = try #require(
                request.head.split(separator: "\r\n").first {
                    $0.lowercased().hasPrefix("authorization: bearer ")
                }
            )
            let parts = line.dropFirst("authorization: bearer ".count).split(separator: ".")
            try #require(parts.count == 3)
            let texts = try parts.prefix(2).map { part in
                try JSONDecoder().decode(
                    JSONValue.self,
                    from: Data(try #require(Base64URL.decode(String(part))))
                )
            }
            #expect(texts[0]["alg"] == "ES256" && texts[0]["kid"] == "KEY4567890")
            #expect(texts[1]["iss"] == "TEAM567890")
            #expect(texts[1]["iat"] == .integer(clock.now().millisecondsSince1970 / 1_000))
            let signature = try P256.Signing.ECDSASignature(
                rawRepresentation: try #require(Base64URL.decode(String(parts[2])))
            )
            let signed = Data("\(parts[0]).\(parts[1])".utf8)
            #expect(key.publicKey.isValidSignature(signature, for: signed))
        }
    }

    @Test func `a device without bits has none`() async throws {
        for text in ["Failed to find bit state", "Bit State Not Found"] {
            try await with([("200 OK", text)]) { client, _ in
                let bits = try await client.query("token")
                #expect(bits == DeviceCheckBits())
            }
        }
    }

    @Test func `a success that is none of DeviceCheck is no answer`() async throws {
        try await with([("200 OK", "<html>Log in</html>")]) { client, _ in
            await #expect(throws: DeviceCheckError.unavailable) { try await client.query("token") }
        }
    }

    @Test func `the bits of a device are written`() async throws {
        try await with([("200 OK", "")]) { client, apple in
            try await client.update("token", DeviceCheckBits(hasHadGrant: true))
            let request = try await apple.arrivals.first("a request")
            #expect(request.head.hasPrefix("POST /v1/update_two_bits "))
            let message = try JSONDecoder().decode(JSONValue.self, from: Data(request.body.utf8))
            #expect(message["bit0"] == true && message["bit1"] == false)
        }
    }

    @Test func `without bits, a token is only validated`() async throws {
        try await with([("200 OK", "")], usesBits: false) { client, apple in
            #expect(try await client.query("token") == DeviceCheckBits())
            try await client.update("token", DeviceCheckBits(hasHadGrant: true))
            let request = try await apple.arrivals.first("a request")
            #expect(request.head.hasPrefix("POST /v1/validate_device_token "))
            #expect(request.number == 1)
        }
    }

    @Test func `a token that Apple refuses is invalid, and is sent once`() async throws {
        for text in ["Bad Device Token", "Missing or incorrectly formatted device token payload"] {
            let requests = Mutex(0)
            let client = try client(0) { _, _, _ in
                requests.withLock { $0 += 1 }
                return .init(status: 400, body: Array(text.utf8))
            }
            await #expect(throws: DeviceCheckError.invalidToken) {
                try await client.query("token")
            }
            #expect(requests.withLock(\.self) == 1)
        }
    }

    @Test func `a refused key of the server is no fault of the device`() async throws {
        let answers = [
            (400, "Missing or badly formatted authorization token"),
            (401, "Unable to verify authorization token"), (403, ""),
        ]
        for (status, text) in answers {
            let requests = Mutex(0)
            let client = try client(0) { _, _, _ in
                requests.withLock { $0 += 1 }
                return .init(status: status, body: Array(text.utf8))
            }
            await #expect(throws: DeviceCheckError.unavailable) { try await client.query("token") }
            #expect(requests.withLock(\.self) == 1)
        }
    }

    @Test func `a failed attempt is repeated, with a new transaction`() async throws {
        let transactions = Mutex<Set<String>>([])
        let client = try client(0) { _, _, body in
            let message = try JSONDecoder().decode(JSONValue.self, from: Data(body))
            let id = message["transaction_id"]?.string ?? ""
            let count = transactions.withLock { ids in
                ids.insert(id)
                return ids.count
            }
            guard count > 1 else { throw CocoaError(.fileReadUnknown) }
            return count == 2
                ? .init(status: 503, body: [])
                : .init(status: 200, body: Array(#"{"bit0":false,"bit1":true}"#.utf8))
        }
        #expect(try await client.query("token") == DeviceCheckBits(isBlocked: true))
        #expect(transactions.withLock(\.count) == 3)
    }

    @Test func `after three attempts the server is unavailable`() async throws {
        let requests = Mutex(0)
        let client = try client(0) { _, _, _ in
            requests.withLock { $0 += 1 }
            return .init(status: 500, body: [])
        }
        await #expect(throws: DeviceCheckError.unavailable) { try await client.query("token") }
        #expect(requests.withLock(\.self) == 3)
    }

    @Test func `a server that refuses connections is unavailable`() async throws {
        let client = try client(1)
        await #expect(throws: DeviceCheckError.unavailable) { try await client.query("token") }
    }

    @Test func `a redirect is not followed`() async throws {
        let location = "Location: /elsewhere\r\n"
        try await ScriptedUpstream.with { _ in
            .bytes(ScriptedUpstream.json("{}", status: "307 Moved", headers: location))
        } _: { apple in
            let client = try client(apple.port)
            await #expect(throws: DeviceCheckError.unavailable) { try await client.query("token") }
            #expect(try await apple.arrivals.first("a request").number == 1)
        }
    }

    @Test func `a silent server is left when the request is cancelled`() async throws {
        try await ScriptedUpstream.with { _ in
            .bytesThenSilence("HTTP/1.1 200 OK\r\n")
        } _: { apple in
            let client = try client(apple.port)
            let query = Task { try await client.query("token") }
            _ = try await apple.arrivals.first("a request")
            query.cancel()
            await #expect(throws: DeviceCheckError.unavailable) { try await query.finished() }
        }
    }

    @Test func `a text that is no key on P-256 is refused`() {
        for text in ["", "key", P384.Signing.PrivateKey().pemRepresentation] {
            #expect(throws: DeviceCheckKeyError.self) {
                try DeviceCheckKey(pem: text, id: "KEY4567890", team: "TEAM567890")
            }
        }
    }
}

@Suite("Settings of attestation", .bounded)
struct AttestationSettingTests {
    @Test func `a key of DeviceCheck needs all of its settings`() {
        var settings = ServerSettings()
        settings.deviceCheck.keyId = "KEY4567890"
        let names = settings.deviceCheck.problems.map(\.description)
        #expect(names.count == 2)
        #expect(names.contains { $0.contains("deviceCheck.teamId") })
        #expect(names.contains { $0.contains("deviceCheck.keyFile") })
        #expect(ServerSettings().deviceCheck.problems.isEmpty)
    }

    @Test func `attestation needs an app, or a key of DeviceCheck`() {
        var settings = ServerSettings()
        settings.attestation.guests = "required"
        #expect(
            settings.attestation.problems(hasDeviceCheck: settings.deviceCheck.keyId != nil).count
                == 2
        )
        settings.deviceCheck.keyId = "KEY4567890"
        #expect(
            settings.attestation.problems(hasDeviceCheck: settings.deviceCheck.keyId != nil).isEmpty
        )
        settings.attestation.assertions = "required"
        #expect(
            settings.attestation.problems(hasDeviceCheck: settings.deviceCheck.keyId != nil).count
                == 2
        )
    }

    @Test func `a file that is missing or no key is refused`() async throws {
        try await TemporaryFolder.with { folder in
            let file = folder.appending(path: "key.p8")
            var setting = DeviceCheckSetting()
            setting.keyId = "KEY4567890"
            setting.teamId = "TEAM567890"
            setting.keyFile = file.path
            #expect(throws: SettingsError.self) { try load(setting) }
            try Data("no key".utf8).write(to: file)
            #expect(throws: SettingsError.self) { try load(setting) }
            try Data(P256.Signing.PrivateKey().pemRepresentation.utf8).write(to: file)
            #expect(try load(setting) != nil)
        }
    }

    private func load(_ setting: DeviceCheckSetting) throws -> (any DeviceCheckClient)? {
        try setting.load(
            clock: SystemWallClock(),
            delay: ContinuousClock(),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }
}
