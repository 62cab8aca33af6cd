import SanguineModel

extension QuotaSetting {
    /// How a quota is written: `quotas.<name>`, the times a day.
    enum Field {
        static let perDay = 0...1_000_000_000
        static let allowed = "a whole number from 0 to 1000000000"

        static func problems(in quota: QuotaSetting) -> [SettingsError.Problem] {
            if perDay.contains(quota.perDay) { return [] }
            return [
                .invalid(
                    setting: "quotas.\(quota.name)",
                    value: String(quota.perDay),
                    allowed: allowed,
                    source: "settings"
                )
            ]
        }
    }

    /// Reads a quota as the file gives it, or returns `nil` if the text is no number.
    public init?(name: String, text: String) {
        guard let perDay = Int(text) else { return nil }
        self.init(name: name, perDay: perDay)
    }

    /// What ``init(name:text:)`` allows, in words.
    public static var allowed: String { Field.allowed }
}
