import Foundation
import Sanguine
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Clients that attest their device, and a server that verifies it.
    @Suite("Attested clients", .bounded(.seconds(60)))
    struct AttestedClientTests {
        private let clock = ManualWallClock()

        /// A server that requires attestations of a made App Attest, and an attestor of a device.
        private func with(
            assertions: Bool = false,
            _ body: @escaping @Sendable (LocalServer, MadeAttestor) async throws -> Void
        ) async throws {
            let service = try TestAppAttest(at: clock.now())
            try await TemporaryFolder.with { folder in
                let root = folder.appending(path: "root.cer")
                try Data(service.root).write(to: root)
                var settings = ServerSettings()
                settings.attestation.guests = "required"
                settings.attestation.assertions = assertions ? "required" : "none"
                settings.attestation.appId = TestAppAttest.app
                settings.attestation.roots = [root.path]
                let usable = settings
                try await LocalServer.with(settings: usable, clock: clock) { server in
                    try await body(server, MadeAttestor(service))
                }
            }
        }

        private func client(
            of server: LocalServer,
            _ attestor: MadeAttestor?
        ) throws -> SanguineClient {
            var configuration = SanguineClient.Configuration.of(port: server.port, clock: clock)
            configuration.deviceAttestor = attestor
            return try SanguineClient(configuration)
        }

        @Test func `an attested client becomes a guest`() async throws {
            try await with { server, attestor in
                let client = try client(of: server, attestor)
                defer { client.close() }
                #expect(try await client.value(of: .balance).available == 100)
                #expect(attestor.keys == 1)
                #expect(try server.requests("POST", "/v1/accounts/guest") == 1)
            }
        }

        @Test func `a client without an attestor is refused with a stable code`() async throws {
            try await with { server, _ in
                let client = try client(of: server, nil)
                defer { client.close() }
                let error = await #expect(throws: SanguineError.self) {
                    try await client.value(of: .balance)
                }
                guard case .problem(let problem)? = error else {
                    Issue.record("The error is \(String(describing: error)).")
                    return
                }
                #expect(problem.code == .attestationFailed && problem.status == 403)
                #expect(problem.detail.contains("check: missing"))
            }
        }

        @Test func `an attestation of another service is refused`() async throws {
            try await with { server, _ in
                let other = MadeAttestor(try TestAppAttest(at: clock.now()))
                let client = try client(of: server, other)
                defer { client.close() }
                let error = await #expect(throws: SanguineError.self) {
                    try await client.value(of: .balance)
                }
                guard case .problem(let problem)? = error else { return }
                #expect(problem.detail.contains("check: certificates"))
            }
        }

        @Test func `sessions are refreshed with assertions where they are demanded`() async throws {
            try await with(assertions: true) { server, attestor in
                let client = try client(of: server, attestor)
                defer { client.close() }
                _ = try await client.value(of: .balance)
                for _ in 0..<3 {
                    clock.advance(by: .seconds(3_600))
                    _ = try await client.refresh(.balance)
                }
                #expect(attestor.keys == 1)
                #expect(try server.requests("POST", "/v1/accounts/guest") == 1)
            }
        }

        @Test func `a device that has lost its key keeps its account with a new one`()
            async throws
        {
            try await with(assertions: true) { server, attestor in
                let client = try client(of: server, attestor)
                defer { client.close() }
                _ = try await client.value(of: .balance)
                let account = client.accountId
                attestor.loseKeys()
                clock.advance(by: .seconds(3_600))
                #expect(try await client.refresh(.balance).available == 100)
                #expect(client.accountId == account && attestor.keys == 1)
            }
        }

        @Test func `a client whose network has too many guests asks once, and stays usable`()
            async throws
        {
            var settings = ServerSettings()
            settings.limits.guestsPerHour = 1
            let usable = settings
            try await LocalServer.with(settings: usable, clock: clock) { server in
                let first = try client(of: server, nil)
                defer { first.close() }
                _ = try await first.value(of: .balance)

                let second = try client(of: server, nil)
                defer { second.close() }
                for _ in 0..<3 {
                    let error = await #expect(throws: SanguineError.self) {
                        try await second.value(of: .balance)
                    }
                    #expect(error?.errorClass == .waits && error?.code == "rate_limited")
                }
                #expect(try server.requests("POST", "/v1/accounts/guest") == 2)
                // The known device is not affected.
                _ = try await first.refresh(.balance)
                clock.advance(by: .seconds(3_601))
                #expect(try await second.refresh(.balance).available == 100)
            }
        }
    }
}
