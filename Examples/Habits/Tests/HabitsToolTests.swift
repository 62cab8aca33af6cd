import Foundation
import SanguineTesting
import TestSupport
import Testing

/// The real executable, as a user runs it.
@Suite("Habits in a terminal", .bounded(.seconds(120)))
struct HabitsToolTests {
    @Test func `a habit is added, completed offline and shown in every device's month`()
        async throws
    {
        let root = FileManager.default.temporaryDirectory.appending(path: "habits-\(UUID())")
        defer { try? FileManager.default.removeItem(at: root) }
        let serve = ["serve", "--port", "0", "--data", root.appending(path: "server").path]
        try await Tool.with(serve, of: "Habits") { server in
            let address = "http://127.0.0.1:\(try await server.listeningPort())"
            let phone = Device(folder: root.appending(path: "phone"), server: address)

            #expect(try await phone.run("add", "Run") == ["[ ] Run, streak 0", "0 of 1 today"])
            #expect(try await phone.run("add", "Water", "--goal", "8").last == "0 of 2 today")
            #expect(
                try await phone.run("done", "Run")
                    == ["[✓] Run, streak 1", "[ ] Water 0/8, streak 0", "1 of 2 today"]
            )
            #expect(
                try await phone.run("done", "Water", "8", "--offline")
                    == [
                        "[✓] Run, streak 1", "[✓] Water 8/8, streak 1", "2 of 2 today",
                        "1 to be sent",
                    ]
            )
            let month = try await phone.run("month")
            let days = String(repeating: "·", count: 29) + "█"
            #expect(month.prefix(3) == ["\(days) Run", "\(days) Water", "3 % of the month"])
            #expect(month.contains("longest streak: Run") && month.last == "2 of 2 today")

            let tablet = Device(folder: root.appending(path: "tablet"), server: address)
            try tablet.join(phone)
            #expect(try await tablet.run("list").last == "2 of 2 today")
            #expect(try await tablet.run("clear", "Run").last == "1 of 2 today")
            #expect(try await phone.run().last == "1 of 2 today")

            let ended = try await Tool.run(
                "done",
                "Swim",
                "--folder",
                phone.folder.path,
                of: "Habits"
            )
            #expect(ended.status == 64)
            #expect(ended.errors.contains("There is no habit 'Swim'. 'Habits add' creates one."))
            server.signal(SIGTERM)
            #expect(try await server.ended().status == 0)
        }
    }

    /// A device with the command-line app.
    private struct Device {
        let folder: URL
        let server: String

        /// Returns the lines that a command prints.
        func run(_ arguments: String...) async throws -> [String] {
            let all = arguments + ["--server", server, "--folder", folder.path]
            let ended = try await Tool.with(all, of: "Habits", environment: ["TZ": Self.noon]) {
                try await $0.ended()
            }
            #expect(ended.status == 0, "\(arguments): \(ended.errors)")
            return ended.output.split(separator: "\n").map(String.init)
        }

        /// Joins the account of another device.
        func join(_ other: Device) throws {
            let file = "device-identity.json"
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try FileManager.default.copyItem(
                at: other.folder.appending(path: file),
                to: folder.appending(path: file)
            )
        }

        /// A time zone in which it is about noon, so that no day ends during the test.
        private static var noon: String {
            let hour = Int(Date().timeIntervalSince1970 / 3_600) % 24
            return "Etc/GMT\(hour < 12 ? "-" : "+")\(abs(12 - hour))"
        }
    }
}
