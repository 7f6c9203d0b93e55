//! Values of the facts about stacks, and descriptions of beds: whole, or by the clauses of their lists.

use super::Message;

#[rustfmt::skip]
pub const MESSAGES: &[Message] = &[
    // Reasons of values that are not known, or not applicable.
    ("UDP has none", &["у UDP этого нет"]),
    ("no TCP_INFO", &["нет TCP_INFO"]),
    ("no parameters of the module", &["нет параметров модуля"]),
    ("{} is not listed", &["{} нет в перечне"]),
    ("no association yet", &["ассоциации ещё нет"]),
    ("no SCTP_DELAYED_SACK", &["нет SCTP_DELAYED_SACK"]),
    ("no SO_RCVBUF", &["нет SO_RCVBUF"]),
    ("the interface is not known", &["интерфейс неизвестен"]),
    ("the driver does not state it", &["драйвер этого не сообщает"]),
    ("the program does not tell", &["программа этого не сообщает"]),

    // Windows and packets.
    ("{} messages", &["{} сообщение", "{} сообщения", "{} сообщений"]),
    ("{} message (stop-and-wait)", &["{} сообщение (с ожиданием подтверждения)"]),
    ("no slow start", &["без медленного старта"]),
    ("bandwidth plateau", &["прекращение роста полосы"]),
    ("by the workload", &["нагрузкой"]),
    ("fixed", &["постоянный"]),
    ("searched up to {}", &["подбирается до {}"]),
    ("a datagram for each message", &["дейтаграмма на каждое сообщение"]),
    ("stream {}", &["поток {}"]),
    ("connection {}", &["соединение {}"]),
    ("association {}", &["ассоциация {}"]),
    ("buffer of {}", &["буфер {}"]),
    ("tuned by the kernel", &["настраивает ядро системы"]),
    ("buffer of at most {}", &["буфер не больше {}"]),
    ("none for DATAGRAM frames", &["нет для кадров DATAGRAM"]),

    // Acknowledgements.
    ("each packet", &["каждый пакет"]),
    ("every second packet, or after {}", &["каждый второй пакет или через {}"]),
    ("every tenth packet, or after {}", &["каждый десятый пакет или через {}"]),
    ("every {} packets, or after {}", &["каждые {} пакетов или через {}"]),
    ("each packet at first", &["сначала каждый пакет"]),
    ("each batch of packets that the socket gives, at once", &["сразу, каждая группа пакетов, полученная из сокета"]),

    // Threads, offloads and the probe.
    ("{}, protocol in it", &["{}, протокол в нём"]),
    ("{}, protocol in the kernel", &["{}, протокол в ядре системы"]),
    ("of the interface", &["интерфейса"]),
    ("TSO of the interface", &["TSO интерфейса"]),
    ("GSO of the interface", &["GSO интерфейса"]),
    ("GRO of the interface", &["GRO интерфейса"]),
    ("TSO, GSO of the interface", &["TSO, GSO интерфейса"]),
    ("TSO, GRO of the interface", &["TSO, GRO интерфейса"]),
    ("GSO, GRO of the interface", &["GSO, GRO интерфейса"]),
    ("TSO, GSO, GRO of the interface", &["TSO, GSO, GRO интерфейса"]),
    ("of the socket", &["сокета"]),
    ("on", &["включено"]),
    ("{} packets at most", &["не больше {} пакета", "не больше {} пакетов", "не больше {} пакетов"]),
    ("own stream", &["отдельный поток соединения"]),

    // Beds.
    ("netns", &["пространства имён сети"]),
    ("hosts", &["хосты"]),
    ("two guests", &["две гостевые системы"]),
    ("direct link", &["прямое соединение"]),
    ("path as it is", &["путь как есть"]),
    ("the network as it is, to the server {}", &["сеть как есть, до сервера {}"]),
    ("user-space emulator", &["эмулятор в пространстве пользователя"]),
    ("netem on both ends", &["netem на обеих сторонах"]),
    ("netem on a macvlan at both ends", &["netem на macvlan обеих сторон"]),
    ("netem on an interface of both", &["netem на интерфейсе обеих сторон"]),
    ("netem between the hosts", &["netem между хостами"]),
    ("netem between the hosts ({})", &["netem между хостами ({})"]),
    ("where TCP's small queues meet it", &["где с ним взаимодействуют малые очереди TCP"]),
    ("where TCP's small queues meet it ({})", &["где с ним взаимодействуют малые очереди TCP ({})"]),
    ("loss by iptables", &["потери с помощью iptables"]),
    ("loss by iptables ({})", &["потери с помощью iptables ({})"]),
    ("offloads on", &["разгрузка (offload) включена"]),
    ("offloads on ({})", &["разгрузка (offload) включена ({})"]),
    ("seeded", &["с начальным значением"]),
    ("not seeded", &["без начального значения"]),
];
