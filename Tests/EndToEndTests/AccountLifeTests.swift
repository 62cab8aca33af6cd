import Foundation
import Sanguine
import SanguineAuthority
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// The life of an account on several devices, with the real client and the real server.
    @Suite("The life of an account", .bounded(.seconds(180)))
    struct AccountLifeTests {
        private static let email = "ana@example.org"
        private static let password = "correct horse battery"
        private static let text = "text-of-the-account"

        /// A server that writes its e-mails to a folder, with an upstream whose answers wait.
        private struct Stage: Sendable {
            let root: URL
            let server: LocalServer
            let upstream: ScriptedUpstream
            let gate: Gate

            func device(_ name: String, isOnline: Bool = true) throws -> LifeDevice {
                try LifeDevice(root.appending(path: name), port: server.port, isOnline: isOnline)
            }

            /// Registers the account of a device.
            func register(_ client: SanguineClient) async throws -> Account {
                try await client.account.upgrade(email: email, password: password)
                let mail = MailFolder(root.appending(path: "mail"))
                var code: String?
                try await eventually("the code", within: TestingLimits.longestWait) {
                    code = mail.codes(for: email).first
                    return code != nil
                }
                return try await client.account.verify(code: try #require(code))
            }
        }

        private static func withStage(
            _ body: @escaping @Sendable (Stage) async throws -> Void
        ) async throws {
            let gate = Gate()
            try await TemporaryFolder.with { root in
                try await ScriptedUpstream.with { request in
                    await gate.wait(for: request.question)
                    return .answer("The answer.")
                } _: { upstream in
                    var settings = ServerSettings()
                    settings.upstream.url = upstream.url
                    settings.mail.folder = root.appending(path: "mail").path
                    let data = root.appending(path: "data")
                    try await LocalServer.with(folder: data, settings: settings) { server in
                        try await body(
                            Stage(root: root, server: server, upstream: upstream, gate: gate)
                        )
                    }
                }
            }
        }

        /// Reads a streamed answer to its end.
        private static func read(
            _ client: SanguineClient,
            _ question: String
        ) throws -> Task<String, any Error> {
            let stream = try client.stream(Ask(question: question))
            return Task {
                var text = ""
                var parts = stream.makeAsyncIterator()
                while let part = try await parts.next() { text += part }
                return text
            }
        }

        /// Checks that devices agree on the notes, the balance and the quotas.
        private static func expectEqual(
            _ devices: [LifeDevice],
            notes: Set<String>,
            tokens: Int64,
            readings: Int64
        ) async throws {
            for device in devices {
                try await device.client.synchronize()
                let shown = device.notes
                #expect(shown.count == notes.count, "\(device.name)")
                #expect(Set(shown) == notes, "\(device.name)")
                let balance = try await device.client.refresh(.balance)
                #expect(balance.available == tokens && balance.held == 0, "\(device.name)")
                let quotas = try await device.client.refresh(.quotas)
                #expect(quotas.first { $0.name == "readings" }?.used == readings)
                #expect(device.client.outbox.pending.isEmpty, "\(device.name)")
                #expect(device.client.outbox.refused.isEmpty, "\(device.name)")
            }
        }

        // MARK: - The whole life

        @Test func `a guest registers, signs in elsewhere, merges another guest, and is deleted`()
            async throws
        {
            try await Self.withStage { stage in
                let phone = try stage.device("phone", isOnline: false)
                let tablet = try stage.device("tablet")
                let laptop = try stage.device("laptop")
                defer { for device in [phone, tablet, laptop] { device.client.close() } }

                let account = try await Self.begin(phone, stage)
                try await tablet.client.signIn(email: Self.email, password: Self.password)
                #expect(tablet.client.accountId == account)
                try await Self.expectEqual(
                    [phone, tablet],
                    notes: Self.notes("phone", 0..<5),
                    tokens: 96,
                    readings: 1
                )
                try await Self.merge(laptop, into: account)
                let all = Self.notes("phone", 0..<5).union(Self.notes("laptop", 0..<8))
                try await Self.expectEqual(
                    [phone, tablet, laptop],
                    notes: all,
                    tokens: 194,
                    readings: 2
                )
                try await Self.signOutEverywhere(phone, tablet, laptop, notes: all)
                try await Self.delete(tablet, laptop, account)
                #expect(try await stage.server.audit().differences.isEmpty)
            }
        }

        /// A guest's first minutes, offline and online, and the registration during a call.
        private static func begin(_ phone: LifeDevice, _ stage: Stage) async throws -> Identifier {
            let client = phone.client
            try phone.add(0..<3)
            #expect(client.accountId == nil && client.outbox.pending.count == 3)
            #expect(Set(phone.notes) == notes("phone", 0..<3))
            phone.connectivity.connect()
            try await client.synchronize()
            let account = try #require(client.accountId)
            #expect(client.account.current.kind == .guest && client.outbox.pending.isEmpty)
            try await client.call(Echo(text: "Hello"))
            try await client.consume("readings")

            let answer = try read(client, "during the upgrade")
            try await stage.upstream.requests.when("the streamed call") { $0.count == 1 }
            try phone.add(3..<4)
            let registered = try await stage.register(client)
            #expect(registered.id == account && registered.kind == .registered)
            #expect(client.accountId == account && !client.account.needsSignIn)
            try phone.add(4..<5)
            stage.gate.open("during the upgrade")
            #expect(try await answer.finished() == "The answer.")
            try await client.synchronize()
            #expect(stage.upstream.requests.value.count == 1)
            return account
        }

        /// A third device with a guest of its own becomes a part of the account, as previewed.
        private static func merge(_ laptop: LifeDevice, into account: Identifier) async throws {
            let client = laptop.client
            try laptop.add(0..<2)
            try await client.synchronize()
            try await client.call(Echo(text: "Hello"))
            try await client.consume("readings", amount: 2)
            let guest = try #require(client.accountId)
            #expect(guest != account)

            laptop.connectivity.disconnect()
            try laptop.add(2..<4)
            let offer = try await client.account.previewMerge(email: email, password: password)
            let preview = offer.preview
            #expect(preview.guest == guest && preview.account.id == account)
            #expect(preview.records == 2 && preview.conflictCount == 0)
            #expect(preview.tokens.moved == 99 && preview.tokens.available == 195)
            async let merged = client.account.merge(offer)
            try laptop.add(4..<6)
            #expect(try await merged.id == account)
            try laptop.add(6..<8)
            #expect(client.accountId == account)
            #expect(Set(laptop.notes).isSuperset(of: notes("laptop", 0..<8)))

            laptop.connectivity.connect()
            try await client.synchronize()
            #expect(try await client.refresh(.balance).available == preview.tokens.available)
            #expect(try await client.refresh(.quotas) == preview.quotas)
            try await client.call(Echo(text: "Hello again"))
        }

        private static func signOutEverywhere(
            _ phone: LifeDevice,
            _ tablet: LifeDevice,
            _ laptop: LifeDevice,
            notes: Set<String>
        ) async throws {
            try await phone.client.sessions.signOutEverywhere()
            #expect(phone.client.accountId == nil && phone.notes.isEmpty)
            for device in [tablet, laptop] {
                await #expect(throws: SanguineError.self, "\(device.name)") {
                    try await device.client.refresh(.balance)
                }
                #expect(device.client.account.needsSignIn, "\(device.name)")
                #expect(Set(device.notes) == notes, "\(device.name)")
                try await device.client.signIn(email: email, password: password)
            }
            try await expectEqual([tablet, laptop], notes: notes, tokens: 194, readings: 2)
        }

        private static func delete(
            _ tablet: LifeDevice,
            _ laptop: LifeDevice,
            _ account: Identifier
        ) async throws {
            try await eventually("the notes in the tablet's files") { try tablet.hasBytes(text) }
            let removal = try await tablet.client.deleteAccount()
            #expect(removal.account == account && removal.kept == ["ledger"])
            #expect(tablet.client.accountId == nil && tablet.notes.isEmpty)
            #expect(tablet.client.cached(.balance) == nil && tablet.client.outbox.ofOthers == 0)
            #expect(try !tablet.hasBytes(text), "Notes of the account are in the tablet's files.")
            await #expect(throws: SanguineError.self) {
                try await laptop.client.refresh(.balance)
            }
            try await eventually("the laptop is wiped") {
                try laptop.client.accountId == nil && !laptop.hasBytes(text)
            }
            let error = await #expect(throws: SanguineError.self) {
                try await tablet.client.signIn(email: email, password: password)
            }
            #expect(error?.code == "credentials_invalid")
        }

        private static func notes(_ name: String, _ numbers: Range<Int>) -> Set<String> {
            Set(numbers.map { LifeDevice.text(name, $0) })
        }

        // MARK: - A running call

        @Test func `a streamed call of a guest continues after the merge, and is charged once`()
            async throws
        {
            try await Self.withStage { stage in
                let phone = try stage.device("phone")
                let laptop = try stage.device("laptop")
                defer { for device in [phone, laptop] { device.client.close() } }
                try await phone.client.synchronize()
                let account = try await stage.register(phone.client).id
                try await laptop.client.synchronize()

                let answer = try Self.read(laptop.client, "during the merge")
                try await stage.upstream.requests.when("the streamed call") { $0.count == 1 }
                try await laptop.client.signIn(email: Self.email, password: Self.password)
                #expect(laptop.client.accountId == account)
                stage.gate.open("during the merge")
                #expect(try await answer.finished() == "The answer.")
                for device in [phone, laptop] {
                    let balance = try await device.client.refresh(.balance)
                    #expect(balance.available == 197 && balance.held == 0, "\(device.name)")
                }
                #expect(stage.upstream.requests.value.count == 1)
                #expect(try await stage.server.audit().differences.isEmpty)
            }
        }
    }
}

/// A note of the collection that every server has.
private struct LifeNote: SyncedRecord {
    static let collection = RecordCollection("notes")
    let id: RecordID
    var text: String
}

/// A device with its own folder and its own network.
private struct LifeDevice: Sendable {
    let name: String
    let folder: URL
    let client: SanguineClient
    let connectivity: ManualConnectivity

    init(_ folder: URL, port: Int, isOnline: Bool) throws {
        name = folder.lastPathComponent
        self.folder = folder
        connectivity = ManualConnectivity(isOnline: isOnline)
        var configuration = SanguineClient.Configuration.of(port: port, folder: folder)
        configuration.connectivity = connectivity
        client = try SanguineClient(configuration)
    }

    static func text(_ name: String, _ number: Int) -> String {
        "text-of-the-account-\(name)-\(number)"
    }

    /// The texts of the notes that the client shows.
    var notes: [String] { client.records(LifeNote.self).map(\.text) }

    /// Adds notes with the given numbers.
    func add(_ numbers: Range<Int>) throws {
        for number in numbers {
            let id = RecordID(Identifier(at: SystemWallClock().now()))
            let fields: RecordFields = ["text": .string(Self.text(name, number))]
            try client.perform(CreateRecord(RecordKey(LifeNote.collection.name, id), fields))
        }
    }

    /// Returns whether a file of the device contains the text.
    func hasBytes(_ text: String) throws -> Bool {
        let names = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
        return names.contains { name in
            let file = folder.appending(path: name)
            guard let data = try? Data(contentsOf: file) else { return false }
            return data.range(of: Data(text.utf8)) != nil
        }
    }
}
