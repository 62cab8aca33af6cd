import Foundation
import SanguineModel
import TestSupport
import Testing

extension EndToEnd {
    /// The terminal client's notes, online and offline.
    @Suite("Notes", .bounded(.seconds(120)))
    struct NoteTests {
        private static func withServer(
            _ body: @Sendable (ServeProcess, NoteDevice, NoteDevice) async throws -> Void
        ) async throws {
            try await TemporaryFolder.with { folder in
                try await ServeProcess.with(data: folder.appending(path: "data")) { server in
                    let phone = NoteDevice(
                        folder: folder.appending(path: "phone"),
                        port: server.port
                    )
                    let laptop = NoteDevice(
                        folder: folder.appending(path: "laptop"),
                        port: server.port,
                        joining: phone.folder
                    )
                    try await body(server, phone, laptop)
                }
            }
        }

        @Test func `a pending note is marked and is sent by a later command`() async throws {
            try await Self.withServer { server, phone, _ in
                let made = try await phone.run("add", "Buy milk", "--offline")
                #expect(made.status == 0)
                #expect(made.output.hasSuffix("  … Buy milk\n"))
                #expect(made.errors.isEmpty)
                let offline = try await phone.list("--offline")
                #expect(offline.notes.map(\.pending) == [true])
                #expect(offline.waiting == 1)
                let online = try await phone.list()
                #expect(online.notes.map(\.pending) == [false])
                #expect(online.waiting == 0)
                #expect(try await server.stop().status == 0)

                let late = try await phone.run("add", "Buy bread")
                #expect(late.status == 0)
                #expect(late.errors.hasPrefix("The change will be sent by the next"))
                let alone = try await phone.list()
                #expect(alone.notes.map(\.text) == ["Buy milk", "Buy bread"])
                #expect(alone.notes.map(\.pending) == [false, true])
                #expect(alone.error == "offline")
            }
        }

        @Test func `two terminals and a reader of the live feed show the same notes`()
            async throws
        {
            try await Self.withServer { server, phone, laptop in
                let milk = try await phone.add("Milk")
                let guest = try await server.api.guest(of: phone.folder)
                async let live = server.api.notes(of: guest, until: "The last")
                let bread = try await laptop.add("Bread")
                let cheese = try await laptop.add("Cheese", "--offline")
                #expect(try await phone.run("edit", bread, "Rye bread").status == 0)
                #expect(try await laptop.run("rm", milk).status == 0)
                let last = try await laptop.add("The last")

                let expected = [bread: "Rye bread", cheese: "Cheese", last: "The last"]
                #expect(try await phone.settled().texts == expected)
                #expect(try await laptop.settled().texts == expected)
                #expect(try await live == expected)
            }
        }

        @Test func `a refused operation is shown with its reason until it is discarded`()
            async throws
        {
            try await Self.withServer { _, phone, laptop in
                let note = try await phone.add("Milk")
                _ = try await laptop.settled()
                #expect(try await phone.run("rm", note).status == 0)
                #expect(try await laptop.run("edit", note, "Oat milk", "--offline").status == 0)

                let refused = try await laptop.settled()
                #expect(refused.notes.isEmpty)
                #expect(refused.refused.map(\.code) == ["not_found"])
                let first = try #require(refused.refused.first?.operation)
                let retried = try await laptop.run("retry", first)
                #expect(retried.status == 1)
                #expect(retried.errors.contains("Create the record"))
                let second = try #require(try await laptop.settled().refused.first?.operation)
                #expect(second != first)
                #expect(try await laptop.run("discard", second).status == 0)
                #expect(try await laptop.settled().refused.isEmpty)
            }
        }

        @Test func `a note that does not exist is reported as missing`() async throws {
            try await Self.withServer { _, phone, _ in
                let removed = try await phone.run("rm", "nosuch")
                #expect(removed.errors.contains("There is no note 'nosuch' on this device."))
            }
        }

        @Test func `operations of another server's account are reported`() async throws {
            try await Self.withServer { _, phone, _ in
                _ = try await phone.add("Milk")
                _ = try await phone.add("Bread", "--offline")
                try await Self.withServer { _, other, _ in
                    let moved = NoteDevice(folder: phone.folder, port: other.port)
                    let added = try await moved.run("add", "Tea")
                    #expect(added.errors.contains("Changes of another account wait"))
                    #expect(try await moved.run("list").errors.contains("in this folder: 2."))
                }
                let back = try await phone.settled()
                #expect(Set(back.texts.values) == ["Milk", "Bread", "Tea"])
            }
        }

        @Test func `a folder of another account cannot join an account`()
            async throws
        {
            try await Self.withServer { _, phone, laptop in
                _ = try await phone.settled()
                let alone = NoteDevice(folder: laptop.folder, port: laptop.port)
                _ = try await alone.settled()
                let joined = try await laptop.run("list")
                #expect(joined.status == 1)
                #expect(joined.output.isEmpty)
                #expect(joined.errors.contains("belongs to another account"))
            }
        }
    }
}
