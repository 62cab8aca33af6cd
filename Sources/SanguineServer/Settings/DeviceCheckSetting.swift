import Foundation
import Logging
import SanguineAuthority
import SanguineModel

/// The key with which the server asks Apple's DeviceCheck about devices.
public struct DeviceCheckSetting: Hashable, Sendable {
    /// The identifier of the key.
    ///
    /// Default: `nil`; tokens of DeviceCheck are refused.
    public var keyId: String?
    /// The identifier of the team.
    ///
    /// Default: `nil`; needed if ``keyId`` is set.
    public var teamId: String?
    /// The file of the private key, as Apple's developer account has it: a `.p8` file.
    ///
    /// Default: `nil`; needed if ``keyId`` is set.
    public var keyFile: String?
    /// The environment: `production`, or `development` for apps that Xcode installs.
    ///
    /// Default: `production`.
    public var environment = "production"
    /// The use of the two bits that Apple stores for a device: `grant` or `none`.
    ///
    /// Apple has one pair of bits for all apps of a team. With `none`, tokens are only validated.
    ///
    /// Default: `grant`.
    public var bits = "grant"

    /// The URL of Apple's server.
    var server: String {
        environment == "development"
            ? "https://api.development.devicecheck.apple.com"
            : "https://api.devicecheck.apple.com"
    }

    /// Reads the key.
    ///
    /// - Returns: The client, or `nil` without a key.
    /// - Throws: ``SettingsError`` for a file that contains no key.
    func load(
        clock: any WallClock,
        delay: any Clock<Duration>,
        logger: Logger
    ) throws(SettingsError) -> (any DeviceCheckClient)? {
        guard let keyId, let teamId, let keyFile else { return nil }
        guard let data = FileManager.default.contents(atPath: keyFile) else {
            throw SettingsError([.unreadable(file: keyFile, reason: "the file does not exist.")])
        }
        let key: DeviceCheckKey
        do throws(DeviceCheckKeyError) {
            let text = String(decoding: data, as: UTF8.self)
            key = try DeviceCheckKey(pem: text, id: keyId, team: teamId)
        } catch {
            throw SettingsError([.unreadable(file: keyFile, reason: error.description)])
        }
        return HTTPDeviceCheck(
            key: key,
            server: server,
            usesBits: bits == "grant",
            clock: clock,
            delay: delay,
            logger: logger
        )
    }

    /// The members with invalid values.
    var problems: [SettingsError.Problem] {
        let members = [("keyId", keyId), ("teamId", teamId), ("keyFile", keyFile)]
        guard members.contains(where: { $0.1 != nil }) else { return [] }
        return members.filter { $0.1 == nil }.map { name, _ in
            .invalid(
                setting: "deviceCheck.\(name)",
                value: "",
                allowed: "a value, because other settings of 'deviceCheck' are set",
                source: "settings"
            )
        }
    }
}

extension Setting {
    /// The settings of ``ServerSettings/deviceCheck``.
    static let deviceCheck = [
        Setting(
            "deviceCheck.keyId",
            .optionalText(\.deviceCheck.keyId),
            allowed: "10 letters and digits",
            isValid: isAppleID,
            "The identifier of the key for Apple's DeviceCheck."
        ),
        Setting(
            "deviceCheck.teamId",
            .optionalText(\.deviceCheck.teamId),
            allowed: "10 letters and digits",
            isValid: isAppleID,
            "The identifier of the team that the key is of."
        ),
        Setting(
            "deviceCheck.keyFile",
            .optionalText(\.deviceCheck.keyFile),
            allowed: "the path of a file, such as AuthKey_ABC1234567.p8",
            "The private key, as Apple's developer account has it."
        ),
        Setting(
            "deviceCheck.environment",
            .choice(\.deviceCheck.environment, of: ["production", "development"]),
            "The environment of DeviceCheck; development for apps that Xcode installs."
        ),
        Setting(
            "deviceCheck.bits",
            .choice(\.deviceCheck.bits, of: ["grant", "none"]),
            "The use of Apple's bits of a device: for the grant, or none, which validates tokens."
        ),
    ]

    private static func isAppleID(_ text: String) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy { byte in
                (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
                    || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            }
    }
}
