import Foundation
import SanguineUI
import TestSupport
import Testing

#if canImport(SwiftUI)
import SwiftUI
#else
import SwiftUIStandIn
#endif

/// The sample of the module's first page and of the README.
private enum FirstPage {
    struct ProfileView: View {
        @CachedValue(.profile("42")) var profile

        var body: some View {
            QueryView($profile) { profile in Text(profile.name) }
        }
    }
}

struct RootView: View {
    let client: SanguineClient

    var body: some View {
        ProfileScreen(id: "42").sanguineClient(client)
    }
}

struct FeedScreen: View {
    @CachedList(.feed(.forYou)) var posts

    var body: some View {
        QueryView($posts) { posts in
            List(posts) { post in
                Text(post.id).onAppear { $posts.itemAppeared(post.id) }
            }
        }
        .refreshable { await $posts.refresh() }
    }
}

struct ProfileScreen: View {
    @CachedValue<Profile> var profile: Profile?

    init(id: String) { _profile = CachedValue(.profile(id)) }

    var body: some View {
        QueryView($profile) { profile in
            Text(profile.name)
        } placeholder: {
            Text("Somebody")
        }
    }
}

extension RecordQuery where Value == [Habit] {
    static func shorter(than streak: Int) -> Self {
        RecordQuery(reading: Habit.collection) { records in
            records.records(Habit.self).filter { $0.streak < streak }
        }
    }
}

struct DueScreen: View {
    @CachedRecords<[Habit]> var due: [Habit]

    init(streak: Int) { _due = CachedRecords(.shorter(than: streak), id: streak) }

    var body: some View { List(due) { Text($0.title) } }
}

struct HabitRow: View {
    @Environment(\.sanguine) private var client
    let habit: Habit

    var body: some View {
        Button(habit.title) { _ = try? client.perform(CompleteHabit(habit: habit.id)) }
    }
}

struct QuietStyle: QueryViewStyle {
    func makeBody(configuration: Configuration) -> some View {
        if let content = configuration.content { content } else { configuration.placeholder }
    }
}

struct ProfilePreviews: PreviewProvider {
    static var previews: some View {
        ProfileScreen(id: "42").sanguineClient(
            .preview { shown in
                shown.set(Profile(name: "Ada"), for: .profile("42"))
            }
        )
    }
}

/// The samples of the guide to SwiftUI, drawn with the stand-in where there is one.
@MainActor
@Suite("SwiftUI snippets", .bounded)
struct SwiftUISnippets {
    private func styled(_ client: SanguineClient) -> some View {
        RootView(client: client).queryViewStyle(QuietStyle())
    }

    @Test func `the guide's views have fixed values in a preview`() {
        let client = SanguineClient.preview { shown in
            shown.set(Profile(name: "Ada"), for: .profile("42"))
        }

        #expect(client.model(.profile("42")).value?.name == "Ada")
    }

    #if canImport(SwiftUIStandIn) && !canImport(SwiftUI)
    private let host = StandInHost()

    @Test func `the guide's views show known values`() throws {
        var configuration = SanguineClient.Configuration()
        configuration.register(Habit.self, CompleteHabit.self)
        let client = SanguineClient.preview(configuration) { shown in
            shown.set([Post(id: "Hello")], for: .feed(.forYou))
            try shown.add(Habit(id: .new(), title: "Run"))
        }
        func texts(_ view: some View) -> [String] {
            host.draw(view.sanguineClient(client)).texts
        }

        #expect(host.draw(ProfilePreviews.previews).texts == ["Ada"])
        #expect(texts(styled(client)) == ["Somebody"])
        #expect(texts(FirstPage.ProfileView()) == ["(progress)"])
        #expect(texts(FeedScreen()) == ["Hello"])
        #expect(texts(DueScreen(streak: 1)) == ["Run"])
    }

    @Test func `a button's operation is in the views when it returns`() throws {
        var configuration = SanguineClient.Configuration()
        configuration.register(Habit.self, CompleteHabit.self)
        let client = SanguineClient.preview(configuration) { shown in
            try shown.add(Habit(id: .new(), title: "Run"))
        }
        let habit = try #require(client.records(Habit.self).first)
        let screen = host.draw(HabitRow(habit: habit).sanguineClient(client))
        let complete = try #require(screen.buttons["Run"])
        complete()

        #expect(host.draw(DueScreen(streak: 1).sanguineClient(client)).texts.isEmpty)
    }
    #endif
}
