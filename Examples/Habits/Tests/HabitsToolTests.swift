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
        try await TemporaryFolder.with { root in
            try await ToolDevice.serving("Habits", root.appending(path: "server")) { server, _ in
                try await Self.checkCommands(server, root)
            }
        }
    }

    private static func checkCommands(_ server: String, _ root: URL) async throws {
        let phone = ToolDevice("Habits", server: server, folder: root.appending(path: "phone"))

        #expect(try await phone.lines("add", "Run") == ["[ ] Run, streak 0", "0 of 1 today"])
        #expect(try await phone.lines("add", "Water", "--goal", "8").last == "0 of 2 today")
        #expect(
            try await phone.lines("done", "Run")
                == ["[✓] Run, streak 1", "[ ] Water 0/8, streak 0", "1 of 2 today"]
        )
        #expect(
            try await phone.lines("done", "Water", "8", "--offline")
                == [
                    "[✓] Run, streak 1", "[✓] Water 8/8, streak 1", "2 of 2 today",
                    "1 to be sent",
                ]
        )
        let month = try await phone.lines("month")
        let days = String(repeating: "·", count: 29) + "█"
        #expect(month.prefix(3) == ["\(days) Run", "\(days) Water", "3 % of the month"])
        #expect(month.contains("longest streak: Run") && month.last == "2 of 2 today")

        let tablet = ToolDevice("Habits", server: server, folder: root.appending(path: "tablet"))
        try DeviceIdentityFile(in: phone.folder).copy(to: tablet.folder)
        #expect(try await tablet.lines("list").last == "2 of 2 today")
        #expect(try await tablet.lines("clear", "Run").last == "1 of 2 today")
        #expect(try await phone.lines().last == "1 of 2 today")

        let ended = try await Tool.run(
            "done",
            "Swim",
            "--folder",
            phone.folder.path,
            of: "Habits"
        )
        #expect(ended.status == 64)
        #expect(ended.errors.contains("There is no habit 'Swim'. 'Habits add' creates one."))
    }
}

extension ToolDevice {
    /// Returns the lines that a command prints.
    fileprivate func lines(_ arguments: String...) async throws -> [String] {
        let ended = try await run(arguments)
        #expect(ended.status == 0, "\(arguments): \(ended.errors)")
        return ended.output.split(separator: "\n").map(String.init)
    }
}
