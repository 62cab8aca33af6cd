import Foundation
import Sanguine
import SanguineAuthority
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Clients and servers that stop and start again (traps 7, 16).
    @Suite("Client life cycle", .bounded(.seconds(120)))
    struct ClientLifeTests {
        @Test func `a new process shows the last balance and its age without a server`()
            async throws
        {
            let clock = ManualWallClock()
            try await TemporaryFolder.with { folder in
                let account = try await LocalServer.with(clock: clock) { server in
                    let client = try server.client(folder: folder, clock: clock)
                    defer { client.close() }
                    _ = try await client.value(of: .balance)
                    try await client.call(Echo(text: "Hello"))
                    return client.accountId
                }
                clock.advance(by: .seconds(3_600))
                let client = try SanguineClient(.of(port: 1, folder: folder, clock: clock))
                defer { client.close() }
                #expect(account != nil)
                #expect(client.accountId == account)
                let state = client.snapshot(of: .balance)
                #expect(state.value?.available == 99)
                #expect(state.value?.held == 0)
                #expect(state.age(at: clock.now()) == .seconds(3_600))
            }
        }

        @Test func `a client keeps its account when the server restarts in another process`()
            async throws
        {
            try await TemporaryFolder.with { data in
                let (port, client) = try await ServeProcess.with(data: data) { server in
                    let client = try SanguineClient(.of(port: server.port))
                    _ = try await client.value(of: .balance)
                    try await client.call(Echo(text: "Hello"))
                    #expect(try await server.stop().status == 0)
                    return (server.port, client)
                }
                defer { client.close() }
                let account = client.accountId
                try await LocalServer.with(folder: data, port: port) { server in
                    let echoed = try await client.call(Echo(text: "Still there?"))
                    #expect(echoed == "Still there?")
                    #expect(try await client.refresh(.balance).available == 98)
                    #expect(client.accountId == account)
                    #expect(try server.requests("POST", "/v1/accounts/guest") == 0)
                    #expect(try server.requests("POST", "/v1/sessions/refresh") == 0)
                    #expect(try await server.audit().accounts == 1)
                }
            }
        }

        @Test func `two folders are two devices with an account each`() async throws {
            try await LocalServer.with { server in
                try await TemporaryFolder.with { folder in
                    let one = try server.client(folder: folder.appending(path: "one"))
                    let two = try server.client(folder: folder.appending(path: "two"))
                    defer {
                        one.close()
                        two.close()
                    }
                    try await one.call(Echo(text: "Mine"))
                    #expect(try await two.value(of: .balance).available == 100)
                    #expect(try await one.refresh(.balance).available == 99)
                    #expect(one.accountId != nil)
                    #expect(two.accountId != nil)
                    #expect(one.accountId != two.accountId)
                    #expect(try await server.audit().accounts == 2)
                }
            }
        }

        @Test func `an answer that arrives after the sign-out changes nothing`() async throws {
            let gate = Gate()
            try await ScriptedUpstream.with { _ in
                await gate.wait()
                return .answer("Sure.")
            } _: { upstream in
                var settings = ServerSettings()
                settings.upstream.url = upstream.url
                try await LocalServer.with(settings: settings) { server in
                    let client = try server.client()
                    defer { client.close() }
                    _ = try await client.value(of: .balance)
                    let account = client.accountId
                    let call = Task { () async -> SanguineError? in
                        do throws(SanguineError) {
                            try await client.call(Ask(question: "Is it late?"))
                            return nil
                        } catch {
                            return error
                        }
                    }
                    try await upstream.requests.when { $0.count == 1 }
                    await client.signOut()
                    #expect(client.accountId == nil)
                    #expect(client.cached(.balance) == nil)
                    gate.open()
                    #expect(try await call.finished() == .userChanged)
                    #expect(client.accountId == nil)
                    #expect(client.cached(.balance) == nil)
                    #expect(client.balanceHistory.isEmpty)

                    // A guest can return only with the device, which has the same account, with the
                    // charge.
                    #expect(try await client.value(of: .balance).available == 97)
                    #expect(client.accountId == account)
                    #expect(try await server.audit().accounts == 1)
                }
            }
        }
    }
}
