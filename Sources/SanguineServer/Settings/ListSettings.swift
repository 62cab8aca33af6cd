import SanguineModel

extension QuotaSetting {
    /// The form of a quota in the file: `quotas.<name>` with the number per day.
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

    /// Reads a quota from the file; `nil` if the text is not a number.
    public init?(name: String, text: String) {
        guard let perDay = Int(text) else { return nil }
        self.init(name: name, perDay: perDay)
    }

    /// A description of the values that ``init(name:text:)`` accepts.
    public static var allowed: String { Field.allowed }
}
