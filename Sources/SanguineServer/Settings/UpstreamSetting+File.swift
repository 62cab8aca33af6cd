extension UpstreamSetting {
    /// The members of an upstream in the file: `upstreams.<name>.<member>`.
    public enum Field: String, CaseIterable, Sendable {
        /// The base URL of a server that implements OpenAI's API; required.
        case url
        /// The API key. Default: none.
        case key
        /// The name of the model. Default: `stand-in`.
        case model
        /// The form of videos that are sent to it: `file` or `frames`. Default: `file`.
        case video
        /// The member that limits the length of answers. Default: `auto`.
        case outputLimit
        /// Whether it accepts `stream_options`. Default: `auto`.
        case streamOptions

        /// A description of the permitted values.
        public var allowed: String {
            switch self {
            case .url: "an http or https URL with a host, without user name and password"
            case .key: "visible ASCII characters, without spaces"
            case .model: "1 to 200 characters"
            case .video:
                UpstreamConfiguration.Video.allCases.map(\.rawValue).joined(separator: ", ")
            case .outputLimit:
                UpstreamConfiguration.OutputLimit.allCases.map(\.rawValue).joined(separator: ", ")
            case .streamOptions:
                UpstreamConfiguration.StreamOptions.allCases.map(\.rawValue)
                    .joined(separator: ", ")
            }
        }
    }

    /// Returns the environment variable with an upstream's key, if the file contains none:
    /// `SANGUINE_UPSTREAMS_<NAME>_KEY`.
    public static func keyVariable(of name: String) -> String {
        let letters = name.uppercased().map { $0.isLetter || $0.isNumber ? $0 : "_" }
        return "SANGUINE_UPSTREAMS_\(String(letters))_KEY"
    }

    /// Reads an upstream from the file.
    ///
    /// - Parameters:
    ///   - name: Its name.
    ///   - members: Its members.
    ///   - key: Its key from the environment.
    ///   - source: The source for error messages.
    /// - Throws: `SettingsError` if it has no URL or a member has an invalid value.
    public init(
        name: String,
        members: [Field: String],
        key: String?,
        source: String
    ) throws(SettingsError) {
        guard let url = members[.url] else {
            throw SettingsError([
                .invalid(
                    setting: "upstreams.\(name).url",
                    value: "",
                    allowed: Field.url.allowed,
                    source: source
                )
            ])
        }
        func choice<Choice: RawRepresentable<String>>(
            _ field: Field,
            or standard: Choice
        ) throws(SettingsError) -> Choice {
            guard let text = members[field] else { return standard }
            if let choice = Choice(rawValue: text) { return choice }
            throw SettingsError([
                .invalid(
                    setting: "upstreams.\(name).\(field.rawValue)",
                    value: text,
                    allowed: field.allowed,
                    source: source
                )
            ])
        }
        self.init(
            name: name,
            url: url,
            key: (members[.key] ?? key).map(Secret.init),
            model: members[.model] ?? "stand-in",
            video: try choice(.video, or: .file),
            outputLimit: try choice(.outputLimit, or: .auto),
            streamOptions: try choice(.streamOptions, or: .auto)
        )
    }

    /// The members in the form of the file; the key is masked.
    public var texts: [(field: Field, text: String)] {
        [
            (.url, url), (.key, key == nil ? "" : Secret.mask), (.model, model),
            (.video, video.rawValue), (.outputLimit, outputLimit.rawValue),
            (.streamOptions, streamOptions.rawValue),
        ]
    }

    /// The members with invalid values.
    var faults: [(field: Field, value: String)] {
        var faults: [(Field, String)] = []
        if UpstreamConfiguration.endpoint(of: url) == nil { faults.append((.url, url)) }
        let isVisible = key?.reveal().utf8.allSatisfy { (0x21...0x7E).contains($0) } ?? true
        if !isVisible { faults.append((.key, Secret.mask)) }
        if !(1...200).contains(model.count) { faults.append((.model, model)) }
        return faults
    }
}
