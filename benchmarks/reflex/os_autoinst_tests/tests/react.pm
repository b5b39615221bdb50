use Mojo::Base 'basetest';
use testapi;

# Enter at every menu, for as long as the benchmark lets it run.
sub run {
    while (1) {
        assert_screen('menu', 120);
        send_key('ret');
        assert_screen('idle', 30);
    }
}

1;
