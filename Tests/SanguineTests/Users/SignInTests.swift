import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Users of an app's own backend, which the app identifies.
@Suite("Sign-in", .bounded)
struct SignInTests {
    private let people = PeopleBackend()
    private var device: TestDevice { people.device }

    /// Returns a client after its user Ada has read a value and left an operation unsent.
    private func clientOfAda() async throws -> SanguineClient {
        let client = try device.launch()
        try people.signIn("ada", to: client)
        _ = try await client.value(of: .said)
        device.connectivity.disconnect()
        try client.perform(Say(text: "ada-deed"))
        return client
    }

    @Test func `there is no user before the first sign-in`() throws {
        #expect(try device.launch().userID == nil)
    }

    @Test func `a signed-in user is remembered after the process dies`() throws {
        var client = try device.launch()
        try client.signIn(as: "ada")
        #expect(client.userID == "ada" && client.accountId == nil)
        try device.kill()
        client = try device.launch()
        #expect(client.userID == "ada")
    }

    @MainActor
    @Test func `a model shows nothing of the previous user when a sign-out returns`() async throws {
        let client = try await clientOfAda()
        let (said, list) = (client.model(.said), client.model(.tracks))
        client.set([Track(id: 1, title: "ada-row")], for: .tracks)
        await list.refresh()
        #expect(said.value?.words.contains("ada-deed") == true && list.items.count == 1)
        let outbox = client.outbox.model
        #expect(outbox.isAllSent == false)

        await client.signOut()
        #expect(said.value == nil && list.items.isEmpty && outbox.isAllSent)
        try people.signIn("bob", to: client)
        #expect(said.value == nil && list.items.isEmpty)
    }

    @Test func `a client in memory knows its user too`() throws {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.transport = ScriptedTransport()
        let client = try SanguineClient(configuration)
        try client.signIn(as: "ada")
        #expect(client.userID == "ada")
        try client.signIn(as: "bob")
        #expect(client.userID == "bob")
    }

    @Test func `a guest who signs in keeps values and operations`() async throws {
        let client = try device.launch()
        device.connectivity.disconnect()
        client.set(Words(words: ["a"]), for: .said)
        try client.perform(Say(text: "guest-deed"))
        try people.signIn("ada", to: client)
        #expect(client.cached(.said)?.words == ["a", "guest-deed"])
        device.connectivity.connect()
        try await client.synchronize()
        #expect(people.deeds == [.init(person: "ada", text: "guest-deed")])
    }

    @Test func `operations that a guest left at a sign-out are not the next user's`() async throws {
        let client = try device.launch()
        device.connectivity.disconnect()
        try client.perform(Say(text: "guest-deed"))
        await client.signOut()
        try people.signIn("ada", to: client)
        #expect(client.outbox.pending.isEmpty && client.outbox.unclaimed == 1)
    }

    @Test func `signing in the current user changes nothing`() async throws {
        let client = try await clientOfAda()
        let count = device.client?.users.current.folder?.number
        try client.signIn(as: "ada")
        #expect(client.users.current.folder?.number == count)
        #expect(client.cached(.said)?.words == ["ada-hello", "ada-deed"])
    }

    @Test
    func `another user sees no data of the previous user, and only queued operations stay on disk`()
        async throws
    {
        let client = try await clientOfAda()
        try client.signIn(as: "bob")
        #expect(client.userID == "bob")
        #expect(client.cached(.said) == nil && client.outbox.pending.isEmpty)
        #expect(client.outbox.ofOthers == 1 && client.outbox.unclaimed == 0)
        #expect(try device.files(with: "ada-hello").isEmpty)
        #expect(try device.files(with: "ada-deed") == ["users/1/\(OutboxFile.name)"])
    }

    @Test func `a user's queued operations are sent when they return, and by no other user`()
        async throws
    {
        var client = try await clientOfAda()
        await people.signOut(of: client)
        device.connectivity.connect()
        try people.signIn("bob", to: client)
        try await client.synchronize()
        try device.kill()
        client = try device.launch()
        try await client.synchronize()
        #expect(people.deeds.isEmpty && client.outbox.ofOthers == 1)

        await people.signOut(of: client)
        try people.signIn("ada", to: client)
        #expect(client.outbox.pending.map(\.name) == [Say.name] && client.outbox.ofOthers == 0)
        try await client.synchronize()
        #expect(people.deeds == [.init(person: "ada", text: "ada-deed")])
    }

    @Test func `a user who left before a restart finds their queued operations afterwards`()
        async throws
    {
        var client = try await clientOfAda()
        await people.signOut(of: client)
        try device.kill()
        client = try device.launch()
        #expect(client.userID == nil && client.outbox.ofOthers == 1)
        try people.signIn("ada", to: client)
        device.connectivity.connect()
        try await client.synchronize()
        #expect(people.deeds == [.init(person: "ada", text: "ada-deed")])
    }

    @Test func `a sign-out cut off by a crash finishes at the next launch`() async throws {
        var client = try await clientOfAda()
        // The first step of a sign-out.
        try client.users.current.outbox.file.setOwner(AccountKey(userID: "ada"))
        try device.kill()
        client = try device.launch()
        #expect(client.userID == nil && client.cached(.said) == nil)
        #expect(client.outbox.ofOthers == 1 && client.outbox.unclaimed == 0)
        #expect(try device.files(with: "ada-hello").isEmpty)
        try client.signIn(as: "ada")
        #expect(client.outbox.pending.map(\.name) == [Say.name])
    }

    @Test func `an operation in flight during the change is not the next user's`() async throws {
        let client = try device.launch()
        try people.signIn("ada", to: client)
        people.network.hold()
        try client.perform(Say(text: "ada-deed"))
        try await people.network.waitForHeld(1)
        await people.signOut(of: client)
        try people.signIn("bob", to: client)
        people.network.release()
        try await client.synchronize()
        #expect(!people.deeds.contains { $0.person == "bob" })
        #expect(client.outbox.summary == .init())

        await people.signOut(of: client)
        try people.signIn("ada", to: client)
        try await client.synchronize()
        #expect(people.deeds == [.init(person: "ada", text: "ada-deed")])
        let keys = people.network.requests.filter { $0.method == "POST" }
            .compactMap { $0.headers["Idempotency-Key"] }
        #expect(Set(keys).count == 1)
    }

    @Test func `observed values are fetched for the newly signed-in user`() async throws {
        let client = try device.launch()
        try people.signIn("ada", to: client)
        let updates = client.updates(of: .said)
        try await updates.first("Ada's words") { $0.value?.words == ["ada-hello"] }
        await people.signOut(of: client)
        #expect(client.cached(.said) == nil)
        try people.signIn("bob", to: client)
        try await eventually("Bob's words are shown") {
            client.cached(.said)?.words == ["bob-hello"]
        }
        withExtendedLifetime(updates) {}
    }

    @Test func `a sign-in sends operations that a 401 has paused`() async throws {
        let client = try device.launch()
        try client.perform(Say(text: "guest-deed"))
        try await people.network.waitForRequests(1)
        try await eventually("nothing is being sent") {
            client.outbox.pending.first?.phase == .queued
        }
        try people.signIn("ada", to: client)
        try await eventually("the operation is sent") { !people.deeds.isEmpty }
        #expect(people.deeds == [.init(person: "ada", text: "guest-deed")])
    }

    @Test func `one of many concurrent sign-ins wins, also after a restart`() async throws {
        let client = try device.launch()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    try client.signIn(as: "user-\(number)")
                    client.set(Words(words: ["a"]), for: .said)
                    try client.signIn(as: "user-\(number)")
                }
            }
            try await group.waitForAll()
        }
        let user = try #require(client.userID)
        try device.kill()
        #expect(try device.launch().userID == user)
    }

    @Test func `a companion switches to the newly signed-in user`() throws {
        let folder = TemporaryFolder()
        var configuration = SanguineClient.Configuration()
        configuration.folder = folder.url
        configuration.schema = .counters
        configuration.transport = ScriptedTransport()
        configuration.logger = .silent
        let client = try SanguineClient(configuration)
        let companion = try SanguineCompanion(configuration)
        try client.signIn(as: "ada")
        #expect(client.records(Counter.self).isEmpty)
        try companion.perform(Count(id: .of("a")))
        #expect(companion.record(Counter.self, .of("a"))?.count == 1)
        try client.signIn(as: "bob")
        #expect(companion.record(Counter.self, .of("a")) == nil)
        #expect(client.outbox.ofOthers == 1)
        companion.close()
        client.close()
    }

    @Test func `a client that now has a Sanguine server has no user and keeps operations`()
        async throws
    {
        let client = try await clientOfAda()
        client.close()
        let folder = client.configuration.folder
        var configuration = SanguineClient.Configuration(server: URL(string: TestClient.server))
        configuration.folder = folder
        configuration.transport = ScriptedTransport()
        configuration.register(Say.self)
        configuration.connectivity = device.connectivity
        let next = try SanguineClient(configuration)
        #expect(next.userID == nil && next.outbox.pending.isEmpty)
        #expect(next.cached(.said) == nil && next.outbox.ofOthers == 1)
        next.close()
    }
}

/// Sign-ins that are rejected.
@Suite("Refused sign-ins", .bounded)
struct RefusedSignInTests {
    private let people = PeopleBackend()

    @Test func `with a Sanguine server a sign-in is rejected with instructions`() throws {
        let client = try TestClient().client
        let error = #expect(throws: SanguineError.self) { try client.signIn(as: "ada") }
        #expect(error?.code == "sign_in_refused")
        #expect(error?.description.contains("without 'server'") == true)
        #expect(client.userID == nil)
    }

    @Test(arguments: ["", "a\nb", "a\u{0}", String(repeating: "x", count: 257)])
    func `an invalid id is rejected`(userID: String) throws {
        let client = try people.device.launch()
        let error = #expect(throws: SanguineError.self) { try client.signIn(as: userID) }
        #expect(error?.code == "sign_in_refused")
        #expect(client.userID == nil)
    }

    @Test(arguments: [" ", "a:b", "user:ada", "å\u{1F980}", String(repeating: "x", count: 256)])
    func `any other string is a valid id, also after a restart`(userID: String) throws {
        try people.device.launch().signIn(as: userID)
        try people.device.kill()
        #expect(try people.device.launch().userID == userID)
    }

    @Test func `ids that compare as equal strings are different users`() throws {
        let client = try people.device.launch()
        try client.signIn(as: "\u{E9}")
        client.set(Words(words: ["a"]), for: .said)
        try client.signIn(as: "e\u{301}")
        #expect(client.cached(.said) == nil)
    }

    @Test func `a user id equal to an account id is a different owner`() throws {
        let text = TestAuthorizer.account?.description ?? ""
        #expect(try AccountKey(userID: text) != AccountKey(stored: text))
    }

    @Test func `a closed client rejects a sign-in`() throws {
        let client = try people.device.launch()
        try client.signIn(as: "ada")
        client.close()
        #expect(throws: SanguineError.closed) { try client.signIn(as: "bob") }
        #expect(throws: SanguineError.closed) { try client.signIn(as: "ada") }
    }

    @Test func `a sign-in that cannot be stored is rejected and leaves no user`() throws {
        let client = try people.device.launch()
        let folder = try #require(client.configuration.folder)
        // A file cannot replace this folder.
        let obstacle = folder.appending(path: "present/obstacle")
        try FileManager.default.createDirectory(at: obstacle, withIntermediateDirectories: true)
        let error = #expect(throws: SanguineError.self) { try client.signIn(as: "ada") }
        #expect(error?.code == "store")
        #expect(client.userID == nil)
        try FileManager.default.removeItem(at: folder.appending(path: "present"))
        try client.signIn(as: "ada")
        #expect(client.userID == "ada")
    }
}
