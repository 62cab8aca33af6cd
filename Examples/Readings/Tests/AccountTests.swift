import Foundation
import ReadingsApp
import ReadingsModel
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The zone, the language and the app's own settings.
@Suite("Account of Readings", .bounded(.seconds(60)))
struct AccountTests {
    @Test func `zone, language and settings change at once, offline too, and on every device`()
        async throws
    {
        try await ReadingsWorld.with { world in
            let network = ManualConnectivity()
            let phone = try world.client { $0.connectivity = network }
            _ = try await phone.value(of: .account)
            network.disconnect()
            let (changed, time) = try await MainActor.run {
                let screen = AccountScreen(phone)
                let start = ContinuousClock.now
                try screen.setTimeZone("America/New_York")
                try screen.setLanguage("en")
                try screen.setNotifications(true)
                let time = start.duration(to: .now)
                return (Self.shown(screen), time)
            }
            let wanted = ["America/New_York", "en", "true"]
            #expect(changed == wanted)
            phone.close()

            let again = try world.client { $0.connectivity = network }
            #expect(await Self.shown(AccountScreen(again)) == wanted)
            network.connect()
            try await again.synchronize()
            let found = try await world.account(ofDevice: world.deviceID())
            #expect(found.timeZone == wanted[0] && found.language == wanted[1])
            #expect(found.settings["notifies"] == true)

            try world.join("tablet")
            let tablet = try world.client("tablet")
            _ = try await tablet.account.value()
            let other = await AccountScreen(tablet)
            try await other.finishOnboarding()
            try await tablet.synchronize()
            _ = try await again.refresh(.account)
            let settings: ReadingSettings = again.account.current.settings.decoded()
            #expect(settings.hasOnboarded && settings.notifies)
            printFigure(
                "G10",
                ours: """
                    \(zip(changed, wanted).count { $0 == $1 }) of 3 changes visible offline after \
                    \(time.milliseconds), and on the server once online
                    """
            )
            again.close()
            tablet.close()
        }
    }

    @MainActor
    private static func shown(_ screen: AccountScreen) -> [String] {
        [screen.timeZone, screen.language, "\(screen.settings.notifies)"]
    }
}
