import Foundation
import Sanguine
import SanguineAuthority
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// A guest's phone and tablet, of which one merges or registers the guest while the other one
    /// is offline and is killed, with the real client and the real server.
    @Suite("A guest's second device", .bounded(.seconds(120)))
    struct SecondDeviceTests {
        private static let email = "ana@example.org"
        private static let password = "correct horse battery"

        private struct Stage: Sendable {
            let server: LocalServer
            let mail: MailFolder
            let phone: TestDevice
            let tablet: TestDevice
            let laptop: TestDevice

            /// Registers the account of a client.
            func register(_ client: SanguineClient) async throws -> Identifier {
                try await client.account.upgrade(email: email, password: password)
                var code: String?
                try await eventually("the code", within: TestingLimits.longestWait) {
                    code = mail.codes(for: email).first
                    return code != nil
                }
                return try await client.account.verify(code: try #require(code)).id
            }

            /// Returns the clients of phone and tablet, which share a guest with one note.
            func shared() async throws -> (SanguineClient, SanguineClient, guest: Identifier) {
                let first = try phone.launch()
                try SecondDeviceTests.add(["common"], on: first)
                try await first.synchronize()
                let second = try tablet.launch()
                try await second.signIn(moveCode: try await first.account.moveCode().code)
                try await second.synchronize()
                #expect(SecondDeviceTests.notes(on: second) == ["common"])
                return (first, second, try #require(second.accountId))
            }
        }

        private static func withStage(
            _ body: @escaping @Sendable (Stage) async throws -> Void
        ) async throws {
            try await TemporaryFolder.with { root in
                var settings = ServerSettings()
                let mail = root.appending(path: "mail")
                settings.mail.folder = mail.path
                let data = root.appending(path: "data")
                try await LocalServer.with(folder: data, settings: settings) { server in
                    let devices = (1...3).map { device(UInt64($0), server) }
                    try await body(
                        Stage(
                            server: server,
                            mail: MailFolder(mail),
                            phone: devices[0],
                            tablet: devices[1],
                            laptop: devices[2]
                        )
                    )
                    for device in devices { device.quit() }
                    #expect(try await server.audit().differences.isEmpty)
                }
            }
        }

        private static func device(_ seed: UInt64, _ server: LocalServer) -> TestDevice {
            let clock = ManualWallClock(SystemWallClock().now())
            return TestDevice(network: URLSessionTransport(), clock: clock, seed: seed) {
                configuration in
                configuration.server = URL(string: "http://127.0.0.1:\(server.port)")
                configuration.delay = ContinuousClock()
            }
        }

        private static func add(_ texts: [String], on client: SanguineClient) throws {
            for text in texts {
                let id = RecordID(Identifier(at: SystemWallClock().now()))
                let fields: RecordFields = ["text": .string(text)]
                try client.perform(CreateRecord(RecordKey(DeviceNote.collection.name, id), fields))
            }
        }

        private static func notes(on client: SanguineClient) -> [String] {
            client.records(DeviceNote.self).map(\.text).sorted()
        }

        private static func signIn(_ client: SanguineClient) async throws -> Identifier {
            try await client.signIn(email: email, password: password).id
        }

        private static func expectSent(_ clients: [SanguineClient], _ notes: [String]) async throws
        {
            for client in clients { try await client.synchronize() }
            for client in clients {
                try await client.synchronize()
                #expect(Self.notes(on: client) == notes)
                #expect(client.outbox.pending.isEmpty && client.outbox.refused.isEmpty)
                #expect(client.outbox.ofOthers == 0)
            }
        }

        @Test func `operations of a guest merged elsewhere are sent once, over kills and offline`()
            async throws
        {
            try await Self.withStage { stage in
                let laptop = try stage.laptop.launch()
                try await laptop.synchronize()
                let account = try await stage.register(laptop)
                let (phone, tablet, guest) = try await stage.shared()
                stage.tablet.connectivity.disconnect()
                try Self.add(["offline 1"], on: tablet)
                #expect(try await Self.signIn(phone) == account)

                let second = try stage.tablet.launch()
                #expect(second.accountId == guest)
                try Self.add(["offline 2"], on: second)
                #expect(Self.notes(on: second) == ["common", "offline 1", "offline 2"])
                stage.tablet.connectivity.connect()
                let error = await #expect(throws: SanguineError.self) {
                    try await second.synchronize()
                }
                #expect(error?.code == "guest_registered" && second.account.needsSignIn)

                let third = try stage.tablet.launch()
                #expect(third.accountId == guest && third.outbox.pending.count == 2)
                #expect(try await Self.signIn(third) == account)
                let last = try stage.tablet.launch()
                #expect(last.accountId == account)
                try await Self.expectSent(
                    [last, phone, laptop],
                    ["common", "offline 1", "offline 2"]
                )
            }
        }

        @Test func `after a sign-out the operations wait for the account of the merge`()
            async throws
        {
            try await Self.withStage { stage in
                let laptop = try stage.laptop.launch()
                try await laptop.synchronize()
                let account = try await stage.register(laptop)
                let (phone, tablet, guest) = try await stage.shared()
                stage.tablet.connectivity.disconnect()
                try Self.add(["offline"], on: tablet)
                _ = try await Self.signIn(phone)
                stage.tablet.connectivity.connect()
                _ = try? await tablet.synchronize()
                await tablet.signOut()
                try await tablet.synchronize()
                #expect(tablet.accountId != guest && tablet.accountId != account)
                #expect(Self.notes(on: tablet).isEmpty && tablet.outbox.ofOthers == 1)

                let second = try stage.tablet.launch()
                #expect(try await Self.signIn(second) == account)
                try await Self.expectSent([second, phone, laptop], ["common", "offline"])
            }
        }

        @Test func `operations of a guest registered elsewhere are sent once after the sign-in`()
            async throws
        {
            try await Self.withStage { stage in
                let (phone, tablet, guest) = try await stage.shared()
                stage.tablet.connectivity.disconnect()
                try Self.add(["offline"], on: tablet)
                #expect(try await stage.register(phone) == guest)
                stage.tablet.connectivity.connect()
                _ = try? await tablet.synchronize()
                #expect(tablet.account.needsSignIn && tablet.accountId == guest)
                let second = try stage.tablet.launch()
                #expect(try await Self.signIn(second) == guest)
                try await Self.expectSent([second, phone], ["common", "offline"])

                #expect(try await phone.account.logins().map(\.email) == [Self.email])
                let data = stage.server.folder.path
                let command = ["account", "show", "--data", data, "--email", Self.email]
                let shown = try await Tool.with(command) { try await $0.ended() }
                #expect(shown.output.contains("login     email \(Self.email)  bound"))
            }
        }
    }
}

/// A note of the collection that every server has.
private struct DeviceNote: SyncedRecord {
    static let collection = RecordCollection("notes")
    let id: RecordID
    var text: String
}
