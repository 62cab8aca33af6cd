import Foundation
import Sanguine
import SanguineAuthority
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Threads on several devices, with the real client and the real server.
    @Suite("Threads on devices", .bounded(.seconds(180)))
    struct ThreadTests {
        /// `ask` as a function that keeps history.
        private struct Talk: FunctionCall {
            typealias Output = String
            typealias Input = Ask.Input

            static let name = Ask.name
            static let rules = FunctionRules(price: .fixed(2), streams: true, keepsHistory: true)
            static let whenOffline = OfflineCall.queue

            let input: Ask.Input

            init(_ question: String) { input = Ask.Input(question: question) }
        }

        /// A server with a mail folder, and an upstream whose answers to some questions wait.
        private struct Stage: Sendable {
            let root: URL
            let server: LocalServer
            let gate: Gate

            func device(_ name: String) throws -> Device {
                try Device(root.appending(path: name), port: server.port)
            }

            /// Registers the account of a device, and signs in the others.
            func register(_ first: Device, and others: [Device], as email: String) async throws {
                let password = "correct horse battery"
                try await first.client.account.upgrade(email: email, password: password)
                let mail = MailFolder(root.appending(path: "mail"))
                var code: String?
                try await eventually("the code", within: TestingLimits.longestWait) {
                    code = mail.codes(for: email).first
                    return code != nil
                }
                _ = try await first.client.account.verify(code: try #require(code))
                for device in others {
                    try await device.client.signIn(email: email, password: password)
                }
            }
        }

        /// A device whose network a test switches off.
        private struct Device: Sendable {
            let folder: URL
            let client: SanguineClient
            let connectivity: ManualConnectivity

            init(_ folder: URL, port: Int, isOnline: Bool = true) throws {
                self.folder = folder
                connectivity = ManualConnectivity(isOnline: isOnline)
                var configuration = SanguineClient.Configuration.of(port: port, folder: folder)
                configuration.connectivity = connectivity
                client = try SanguineClient(configuration)
            }

            /// The threads with the texts of their messages, in their order.
            var conversations: [[String]] {
                client.threads.list().map { thread in
                    [thread.id.text] + client.threads.messages(of: thread.id).map(\.text)
                }
            }

            func found(_ text: String) async throws -> [String] {
                var search = try await client.threads.search(prefix: text)
                try await eventually("the index", within: TestingLimits.longestWait) {
                    search = try await client.threads.search(prefix: text)
                    return search.isComplete
                }
                return search.results.compactMap { $0.message?.text }
            }
        }

        private static func withStage(
            _ body: @escaping @Sendable (Stage) async throws -> Void
        ) async throws {
            let gate = Gate()
            try await TemporaryFolder.with { root in
                try await ScriptedUpstream.with { request in
                    if request.question.hasPrefix("wait") { await gate.wait() }
                    return .answer("About \(request.question)")
                } _: { upstream in
                    var settings = ServerSettings()
                    settings.upstream.url = upstream.url
                    settings.mail.folder = root.appending(path: "mail").path
                    for index in settings.functions.indices
                    where settings.functions[index].name == Ask.name {
                        settings.functions[index].rules = Talk.rules
                    }
                    let data = root.appending(path: "data")
                    try await LocalServer.with(folder: data, settings: settings) { server in
                        try await body(Stage(root: root, server: server, gate: gate))
                    }
                }
            }
        }

        @Test func `two devices and a reinstall show the same threads in the same order`()
            async throws
        {
            try await Self.withStage { stage in
                let (phone, tablet) = (try stage.device("phone"), try stage.device("tablet"))
                let laptop = try stage.device("laptop")
                defer { for device in [phone, tablet, laptop] { device.client.close() } }
                let threads = (0..<3).map { _ in RecordID.new() }
                try await phone.client.call(Talk("one"), in: threads[0])
                try await stage.register(phone, and: [tablet], as: "ana@example.org")
                try await tablet.client.call(Talk("two"), in: threads[1])
                try await phone.client.call(Talk("three"), in: threads[2])
                try await tablet.client.call(Talk("four"), in: threads[0])
                try await laptop.client.signIn(
                    email: "ana@example.org",
                    password: "correct horse battery"
                )
                let expected = [
                    [threads[0].text, "one", "About one", "four", "About four"],
                    [threads[2].text, "three", "About three"],
                    [threads[1].text, "two", "About two"],
                ]
                for device in [phone, tablet, laptop] {
                    try await device.client.synchronize()
                    #expect(device.conversations == expected, "\(device.folder.lastPathComponent)")
                }
                #expect(try await stage.server.audit().differences.isEmpty)
            }
        }

        @Test func `threads are readable without a network, and questions wait for it`()
            async throws
        {
            try await Self.withStage { stage in
                let id = RecordID.new()
                let first = try stage.device("phone")
                try await first.client.call(Talk("one"), in: id)
                try await first.client.synchronize()
                first.client.close()
                let phone = try Device(first.folder, port: stage.server.port, isOnline: false)
                defer { phone.client.close() }
                #expect(phone.conversations == [[id.text, "one", "About one"]])
                let stream = try phone.client.stream(Talk("two"), in: id)
                #expect(phone.conversations == [[id.text, "one", "About one", "two", ""]])
                phone.connectivity.connect()
                let answer = Task { try await stream.wholeAnswer() }
                #expect(try await answer.finished("the answer") == "About two")
                try await phone.client.synchronize()
                #expect(phone.conversations == [[id.text, "one", "About one", "two", "About two"]])
                let messages = phone.client.threads.messages(of: id)
                #expect(messages.map(\.record.position) == [1, 2, 3, 4])
            }
        }

        @Test func `titles and deletions travel, and an answer is followed on another device`()
            async throws
        {
            try await Self.withStage { stage in
                let (phone, tablet) = (try stage.device("phone"), try stage.device("tablet"))
                defer { for device in [phone, tablet] { device.client.close() } }
                let id = RecordID.new()
                _ = try await phone.client.value(of: .balance)
                try await stage.register(phone, and: [tablet], as: "ana@example.org")
                let shown = await tablet.client.threads.model(of: id)
                let asked = await phone.client.threads.model(of: id)
                try await asked.ask(Talk("wait"))
                try await eventually("the question", within: TestingLimits.longestWait) {
                    await shown.messages.map(\.phase) == [.complete, .making]
                }
                stage.gate.open()
                try await eventually("the answer", within: TestingLimits.longestWait) {
                    let texts = await [shown.messages, asked.messages].map { $0.map(\.text) }
                    return texts == [["wait", "About wait"], ["wait", "About wait"]]
                }
                try await phone.client.synchronize()
                try phone.client.threads.rename(id, to: "A talk")
                for device in [phone, tablet] { try await device.client.synchronize() }
                #expect(tablet.client.threads.list().map(\.title) == ["A talk"])
                try tablet.client.threads.delete(id)
                for device in [tablet, phone] { try await device.client.synchronize() }
                #expect(phone.conversations.isEmpty && tablet.conversations.isEmpty)
                try await eventually("no message", within: TestingLimits.longestWait) {
                    await (asked.messages + shown.messages).isEmpty
                }
            }
        }

        @Test func `another account never finds a text, and a merged guest's threads move`()
            async throws
        {
            try await Self.withStage { stage in
                let (phone, tablet) = (try stage.device("phone"), try stage.device("tablet"))
                defer { for device in [phone, tablet] { device.client.close() } }
                let (first, second) = (RecordID.new(), RecordID.new())
                try await phone.client.call(Talk("venus"), in: first)
                try await tablet.client.call(Talk("mars"), in: second)
                for device in [phone, tablet] { try await device.client.synchronize() }
                #expect(Set(try await phone.found("ven")) == ["venus", "About venus"])
                #expect(try await tablet.found("ven").isEmpty)
                // The tablet's guest becomes a part of the phone's account.
                try await stage.register(phone, and: [tablet], as: "ana@example.org")
                for device in [phone, tablet] {
                    try await device.client.synchronize()
                    #expect(Set(try await device.found("ven")) == ["venus", "About venus"])
                    #expect(Set(try await device.found("mar")) == ["mars", "About mars"])
                }
                await tablet.client.signOut()
                #expect(tablet.client.threads.list().isEmpty)
                _ = try await tablet.client.value(of: .balance)
                try await tablet.client.synchronize()
                #expect(try await tablet.found("ven").isEmpty)
                #expect(try await tablet.found("mar").isEmpty)
                #expect(try await phone.found("mar").count == 2)
            }
        }
    }
}

extension FunctionStream {
    /// Returns the whole answer.
    fileprivate func wholeAnswer() async throws -> Output { try await result.output }
}
