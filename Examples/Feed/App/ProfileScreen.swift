public import FeedModel
public import Observation
public import Sanguine

/// The state of a profile, the user's own one or another one, and the actions of its buttons.
@MainActor
@Observable
public final class ProfileScreen {
    private let client: SanguineClient
    private let id: RecordID?
    private let me: RecordModel<Profile?>
    private let followed: RecordModel<Set<RecordID>>

    /// Creates the screen.
    ///
    /// - Parameters:
    ///   - client: The app's client.
    ///   - id: The profile. Default: the user's own one.
    public init(_ client: SanguineClient, _ id: RecordID? = nil) {
        (self.client, self.id) = (client, id)
        me = client.model(.me)
        followed = client.model(.followedProfiles)
    }

    // MARK: - State

    /// The profile as far as it is known; the user's own one also without a network.
    public var profile: Profile? {
        _ = me.value
        let own = client.cached(.me)
        guard let id, id != own?.id else { return own }
        return client.cached(.profile(id))
    }

    public var isFollowed: Bool {
        _ = followed.value
        return id.map { client.cached(.followedProfiles).contains($0) } ?? false
    }

    // MARK: - Actions

    /// Loads the profile unless it is fresh.
    public func load() async throws {
        guard let id else { return }
        _ = try await client.value(of: .profile(id))
    }

    /// Creates or changes the user's own profile.
    ///
    /// - Parameters:
    ///   - name: The name. Default: the former one.
    ///   - about: The text about the user. Default: the former one.
    ///   - avatar: The picture, which is uploaded before the profile. Default: the former one.
    /// - Throws: The refusal of a name, or the reason why the picture cannot wait.
    public func save(name: String? = nil, about: String? = nil, avatar: Photo? = nil) async throws {
        let file: String? =
            if let avatar { try await client.enqueueUpload(of: avatar.file).id } else { nil }
        var profile = client.cached(.me) ?? Profile(id: .new(), name: "")
        profile.name = name ?? profile.name
        profile.about = about ?? profile.about
        profile.avatar = file ?? profile.avatar
        profile.placeholder = avatar?.placeholder ?? profile.placeholder
        try client.perform(SaveProfile(profile))
    }

    /// Follows the profile, or ends that.
    ///
    /// - Throws: ``FeedError`` without an own profile, or before the profile is known.
    public func setFollowed(_ isFollowed: Bool) throws {
        guard let id else { return }
        guard let own = client.cached(.me) else { throw FeedError.noProfile }
        let account = client.cached(.profile(id))?.account
        guard account != nil || !isFollowed else { throw FeedError.unknownProfile }
        try client.perform(SetMark(Follow(of: id, account, by: own.id), isFollowed))
    }
}
