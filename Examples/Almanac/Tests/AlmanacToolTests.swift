import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The real executable, as a user runs it.
@Suite("Almanac in a terminal", .bounded(.seconds(180)))
struct AlmanacToolTests {
    private static let birth = [
        "--date", "1990-05-17", "--time", "14:35", "--zone", "Europe/Istanbul",
        "--latitude", "41.0082", "--longitude", "28.9784",
    ]

    @Test func `a birth is set, and its chart is shown, also without a server`() async throws {
        try await TemporaryFolder.with { root in
            let app = root.appending(path: "phone")
            let shown = WatchedState<(device: ToolDevice, chart: String)?>(nil)
            try await ToolDevice.serving("Almanac", root.appending(path: "server")) { server, _ in
                let device = ToolDevice("Almanac", server: server, folder: app)
                let wrong = try await device.run(["birth"] + Self.birth.dropLast(1) + ["200"])
                #expect(wrong.status == 64 && wrong.errors.contains("from -180 to 180"))
                let unset = try await device.run(["chart"])
                #expect(unset.status == 64 && unset.errors.contains("Almanac birth"))

                let set = try await device.run(["birth"] + Self.birth)
                #expect(set.status == 0, "\(set.errors)")
                #expect(set.output.hasPrefix("born 1990-05-17T11:35:00Z"))
                let chart = try await device.run(["chart"])
                #expect(chart.output.contains("sun 32.5") && chart.output.contains("taurus"))
                let matrix = try await device.run(["matrix"])
                #expect(matrix.output.contains("astrodata"))
                shown.withLock { $0 = (device, chart.output) }
            }
            let (device, chart) = try #require(shown.value)
            let offline = try await device.run(["chart"])
            #expect(offline.output == chart, "\(offline.errors)")
        }
    }
}
